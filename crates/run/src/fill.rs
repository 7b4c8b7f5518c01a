// SPDX-License-Identifier: GPL-2.0-only
//! The program's own file, read into folios of a leaf's size: nothing is copied, and the next
//! process that maps the file finds them.

use crate::Refused;
use crate::program::Image;
use wideleaf_fill::{Budget, Found, Geometry, Limits, Plan, Text, Why, act, look};

/// The outcome.
pub struct Filled {
    /// Bytes of text that leaves of a PMD's size will map.
    pub wide: u64,
    /// Bytes of blocks that were read for that.
    pub read: u64,
}

/// Fills all whole blocks of the text of `images`, taking `limit` bytes of memory at most, and
/// page cache for it if `reclaim`.
///
/// # Errors
///
/// If that reaches less than copies would: nothing was dropped then, if that could be seen before.
pub fn fill(images: &[Image], limit: u64, reclaim: bool) -> Result<Filled, Refused> {
    let sizes = Geometry::here().map_err(|error| Refused::Prepare(error.to_string()))?;
    let plans: Result<Vec<Plan>, Refused> = images.iter().map(|i| plan(i, &sizes)).collect();
    let plans = plans?;
    let mut budget = Budget::new(Limits {
        memory: limit,
        read: None,
        rate: None,
        time: None,
        evict: true,
        all_or_none: true,
        gently: false,
        reclaim,
    });
    let filled = act(
        &plans,
        &mut budget,
        &sizes,
        &|_: wideleaf_kit::events::Event<'_>| {},
    );
    match filled.iter().flat_map(|f| &f.left).next() {
        Some(left) => Err(Refused::Unfilled(left.why)),
        None => Ok(Filled {
            wide: filled.iter().map(|f| f.wide).sum(),
            read: budget.read,
        }),
    }
}

/// The work for a file that no other process maps.
fn plan(image: &Image, sizes: &Geometry) -> Result<Plan, Refused> {
    let named = |why: String| Refused::File {
        path: image.path.display().to_string(),
        why,
    };
    let text = Text::read(&image.path, &image.path, sizes.page, sizes.pmd)
        .map_err(|error| named(error.to_string()))?;
    if (text.blocks.len() as u64) * sizes.pmd < image.possible() {
        return Err(Refused::Unfilled(Why::NotCongruent));
    }
    if text.at_any_page {
        return Err(Refused::AnyPage(text.file_system));
    }
    let plan = look(text, sizes);
    let used = |found: &Found| matches!(found, Found::Narrow { used: 1.., .. });
    match plan.left.first() {
        Some(left) => Err(Refused::Unfilled(left.why)),
        None if plan.blocks.iter().any(|(_, found)| used(found)) => {
            Err(Refused::Unfilled(Why::InUse))
        }
        None => Ok(plan),
    }
}
