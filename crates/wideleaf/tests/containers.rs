// SPDX-License-Identifier: GPL-2.0-only
//! Processes by container, pod and image, as a user asks for them, on a machine whose containerd
//! has one pod; and the manifest that brings the command to a cluster.

#![allow(missing_docs)]

#[path = "common/text.rs"]
mod text;
#[path = "common/unshared.rs"]
#[allow(dead_code)]
mod unshared;

use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use text::text;
use unshared::unshared;

const WIDELEAF: &str = env!("CARGO_BIN_EXE_wideleaf");

fn process(root: &Path, pid: u32, name: &str, cgroup: &str) {
    let dir = root.join(pid.to_string());
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("comm"), format!("{name}\n")).unwrap();
    fs::write(dir.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
    let maps = "00400000-00500000 r-xp 00000000 fd:01 7 /bin/x\n";
    fs::write(dir.join("maps"), maps).unwrap();
    let pagemap = File::create(dir.join("pagemap")).unwrap();
    pagemap.set_len((1 << 32) / 4096 * 8).unwrap();
}

/// A tree that looks like /proc, and one that looks like containerd's state.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        fs::create_dir(&proc).unwrap();
        let id = "0123456789abcdef".repeat(4);
        let pod = "/kubepods.slice/kubepods-pod1.slice";
        process(
            &proc,
            10,
            "app",
            &format!("{pod}/cri-containerd-{id}.scope"),
        );
        process(&proc, 11, "other", "/system.slice/other.service");
        let unknown = "f".repeat(64);
        process(
            &proc,
            12,
            "alone",
            &format!("/machine.slice/libpod-{unknown}.scope"),
        );
        let state = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
        let state = dir.path().join(state);
        fs::create_dir_all(&state).unwrap();
        let config = json!({ "annotations": {
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "app",
            "io.kubernetes.cri.image-name": "docker.io/shop:2",
            "io.kubernetes.cri.sandbox-name": "web-0",
            "io.kubernetes.cri.sandbox-namespace": "shop",
        }});
        fs::write(state.join("config.json"), config.to_string()).unwrap();
        Machine { dir }
    }

    /// Runs the command where /run is that of the machine, and no other runtime has left anything:
    /// neither below /var/lib nor in a user's home. None without namespaces.
    fn run(&self, arguments: &str) -> Option<Output> {
        let run = self.dir.path().join("run");
        let proc = self.dir.path().join("proc");
        let script = format!(
            "mount --bind {} /run && mount -t tmpfs none /var/lib &&
             mount --bind /dev/null /etc/passwd && exec {WIDELEAF} {}",
            run.display(),
            arguments.replace("PROC", &format!("--proc {} --cpu none", proc.display()))
        );
        unshared(&script, |_| {})
    }
}

#[test]
fn processes_are_named_and_chosen_by_container_pod_and_image() {
    let machine = Machine::new();
    let shown = "-n -o pid,container,pod,image --sort pid";
    let Some(all) = machine.run(&format!("ps PROC {shown}")) else {
        return;
    };
    let lines = text(&all.stdout);
    let lines: Vec<Vec<&str>> = lines
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    let expected = [
        vec!["10", "app", "shop/web-0", "docker.io/shop:2"],
        vec!["11", "-", "-", "-"],
        vec!["12", "ffffffffffff", "-", "-"],
    ];
    assert_eq!(lines, expected, "{}", text(&all.stderr));
    for choice in [
        "--pod web-0",
        "--pod shop/web-0",
        "--container app",
        "--image shop",
    ] {
        let chosen = machine.run(&format!("ps PROC {shown} {choice}")).unwrap();
        assert!(
            chosen.status.success(),
            "{choice}: {}",
            text(&chosen.stderr)
        );
        let chosen = text(&chosen.stdout);
        assert!(
            chosen.lines().count() == 1 && chosen.contains(" app "),
            "{choice}: {chosen}"
        );
    }
    let none = machine.run("ps PROC --pod web-9").unwrap();
    assert_eq!(none.status.code(), Some(1));
    let said = text(&none.stderr);
    let expected = "no container with the pod web-9 is known; there are ";
    assert!(
        said.contains(expected) && said.contains("shop/web-0"),
        "{said}"
    );
    let json = machine.run("ps PROC --json --pod web-0").unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let container = &json["processes"][0]["container"];
    assert_eq!(
        (&container["name"], &container["runtime"]),
        (&"app".into(), &"containerd".into())
    );
}

#[test]
fn metrics_have_the_names_as_labels() {
    let machine = Machine::new();
    let Some(metrics) = machine.run("metrics PROC") else {
        return;
    };
    let said = text(&metrics.stdout);
    let labels = r#",namespace="shop",pod="web-0",container="app",image="docker.io/shop:2"} 1"#;
    let line = said
        .lines()
        .find(|l| l.starts_with("wideleaf_processes{") && l.contains("kubepods"));
    assert!(line.unwrap().ends_with(labels), "{said}");
    assert!(
        said.contains("wideleaf_processes{cgroup=\"/system.slice/other.service\"} 1\n"),
        "{said}"
    );
    assert!(
        said.contains("wideleaf_container_sources_unreadable 0\n"),
        "{said}"
    );
}

fn manifest() -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/kubernetes/wideleaf.yaml");
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The commands and the configuration in it are such that the program takes.
#[test]
fn the_manifest_runs_commands_that_there_are() {
    let (_, manifest) = manifest();
    let commands = manifest
        .lines()
        .filter_map(|l| l.trim().strip_prefix("args: "));
    let commands: Vec<Vec<String>> = commands.map(|c| serde_json::from_str(c).unwrap()).collect();
    let first: Vec<&str> = commands.iter().map(|c| &c[0][..]).collect();
    assert_eq!(first, ["metrics", "keep"]);
    // An address that is taken: the command line was understood by then.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let metrics: Vec<String> = commands[0]
        .iter()
        .map(|w| w.replace("0.0.0.0:9752", &address))
        .collect();
    let output = Command::new(WIDELEAF).args(metrics).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("in use"),
        "{}",
        text(&output.stderr)
    );

    let (_, rest) = manifest.split_once("keep.toml: |\n").unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    let config: String = lines
        .map(|line| format!("{}\n", line.trim_start()))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keep.toml");
    fs::write(&file, config).unwrap();
    let output = Command::new(WIDELEAF)
        .args(["keep", "--once"])
        .arg(&file)
        .output()
        .unwrap();
    // The image is not here, which is a note.
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
