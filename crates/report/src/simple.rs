// SPDX-License-Identifier: GPL-2.0-only
//! A page with some sentences, a table and plots: what commands of the tool report.

use crate::page::STYLE;
use crate::plot::{COLOURS, Plot};
use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The content of such a page.
pub struct Simple<'a> {
    /// Its title.
    pub title: &'a str,
    /// The findings, most important first.
    pub sentences: &'a [String],
    /// Titles of the table's columns.
    pub headings: &'a [String],
    /// Its rows; the first cell is the row's name.
    pub rows: &'a [Vec<String>],
    /// Drawn below it.
    pub plots: &'a [Plot],
    /// Where it comes from: machine, command, day.
    pub origin: &'a [String],
}

impl Simple<'_> {
    /// The HTML document. It loads nothing and runs nothing.
    ///
    /// # Errors
    ///
    /// If a plot cannot be drawn.
    pub fn page(&self) -> Result<String> {
        let plots = self.plots.iter().filter(|plot| !plot.is_empty());
        let figures: Result<Vec<_>> = plots.enumerate().map(|(n, plot)| figure(plot, n)).collect();
        let figures = figures?;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header { h1 { (self.title) } }
                    main {
                        ul.headline { @for sentence in self.sentences { li { (sentence) } } }
                        div.wide {
                            table {
                                thead {
                                    tr { @for heading in self.headings { th scope="col" { (heading) } } }
                                }
                                tbody {
                                    @for row in self.rows {
                                        tr {
                                            @for (n, cell) in row.iter().enumerate() {
                                                @if n == 0 { th scope="row" { (cell) } }
                                                @else { td { (cell) } }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                        @for figure in &figures { (figure) }
                        h2 { "Where this comes from" }
                        ul.note { @for line in self.origin { li { (line) } } }
                    }
                }
            }
        };
        Ok(page.into_string())
    }
}

/// A plot with its legend, and with its values as a table for who cannot see it.
fn figure(plot: &Plot, number: usize) -> Result<Markup> {
    let id = format!("plot-{number}");
    let drawn = plot.svg()?;
    let named = drawn.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-labelledby=\"{id}\" "),
        1,
    );
    Ok(html! {
        figure.plot {
            figcaption id=(id) { (plot.title) }
            div.wide role="region" aria-labelledby=(id) tabindex="0" { (PreEscaped(named)) }
            @if plot.series.len() > 1 {
                ul.legend {
                    @for (n, series) in plot.series.iter().enumerate() {
                        li { span class={ "key c" (n % COLOURS) } aria-hidden="true" {} (series.name) }
                    }
                }
            }
            details { summary { "Values, " (plot.y) } (values(plot)) }
        }
    })
}

fn values(plot: &Plot) -> Markup {
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th scope="col" { @if plot.x.is_empty() { "count" } @else { (plot.x) } }
                        @for series in &plot.series { th scope="col" { (series.name) } }
                    }
                }
                tbody {
                    @for (n, category) in plot.categories.iter().enumerate() {
                        tr {
                            th scope="row" { (category) }
                            @for series in &plot.series { td { (shown(series.values[n])) } }
                        }
                    }
                }
            }
        }
    }
}

fn shown(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Kind, Series};

    #[test]
    fn names_stay_text_and_an_empty_plot_is_left_out() {
        let plot = |values| Plot {
            title: "ratios".into(),
            x: "pair".into(),
            y: "ratio".into(),
            categories: vec!["1".into(), "2".into()],
            series: vec![Series {
                name: "fill".into(),
                values,
            }],
            kind: Kind::Grouped,
        };
        let page = Simple {
            title: "a <b> & c",
            sentences: &["gains".into()],
            headings: &["MEANS".into(), "CPU".into()],
            rows: &[vec!["<i>".into(), "1".into()]],
            plots: &[plot(vec![Some(0.9), Some(1.0)]), plot(vec![None, None])],
            origin: &["today".into()],
        };
        let page = page.page().unwrap();
        assert!(page.contains("a &lt;b&gt; &amp; c") && page.contains("&lt;i&gt;"));
        assert_eq!(page.matches("<figure").count(), 1);
        assert!(!page.contains("<script"));
    }
}
