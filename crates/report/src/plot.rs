// SPDX-License-Identifier: GPL-2.0-only
//! Draws a plot as SVG, in colours that the page's style sheet decides.
//!
//! The drawing names colours that nobody would choose (`#010203`); `style.css` gives each its
//! value, one for light and one for dark pages and another for paper.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width and height of the plot in the units of the drawing, which scales with the page.
const SIZE: (u32, u32) = (720, 300);
/// Width of a letter, at least for what is named here.
const LETTER: u32 = 7;
/// Height of a bar that stands for 0, in shares of the axis.
const LEAST: f64 = 0.012;
/// How many series have a colour of their own.
pub const COLOURS: usize = 8;

const TEXT: RGBColor = RGBColor(1, 2, 3);
const GRID: RGBColor = RGBColor(1, 2, 4);

/// The colour of the series `n`, as `style.css` knows it.
const fn colour(n: usize) -> RGBColor {
    RGBColor(1, 2, 16 + (n % COLOURS) as u8)
}

/// How the values of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A line through all categories, which have an order.
    Lines,
    /// A bar for each series, side by side.
    Grouped,
}

/// Values of all categories.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// One for each category; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// What is to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows, in one line.
    pub title: String,
    /// What the categories are; empty if their names say it.
    pub x: String,
    /// What the values are, with their unit.
    pub y: String,
    /// Names along the x axis.
    pub categories: Vec<String>,
    /// What is drawn; not more than [`COLOURS`].
    pub series: Vec<Series>,
    /// How.
    pub kind: Kind,
}

impl Plot {
    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.categories.is_empty() || !self.values().any(|value| value.is_finite())
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let all = self.series.iter().flat_map(|series| &series.values);
        all.filter_map(|value| *value)
    }

    /// How it is drawn: where no line would have two ends, bars are seen and points are not.
    fn kind(&self) -> Kind {
        let joined = |series: &Series| {
            series
                .values
                .windows(2)
                .any(|pair| pair.iter().all(Option::is_some))
        };
        match self.kind {
            Kind::Lines if !self.series.iter().any(joined) => Kind::Grouped,
            kind => kind,
        }
    }

    /// The upper end of the y axis.
    fn top(&self) -> f64 {
        let top = self.values().fold(0.0, f64::max);
        if top > 0.0 { top * 1.05 } else { 1.0 }
    }

    /// The drawing, an `svg` element. It has no names of its own that could collide on a page.
    ///
    /// # Errors
    ///
    /// If the plotting library cannot draw it.
    pub fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        {
            let size = (SIZE.0, SIZE.1 + self.below());
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.draw(&root)
                .map_err(|error| anyhow!("{}: {error}", self.title))?;
            root.present()
                .map_err(|error| anyhow!("{}: {error}", self.title))?;
        }
        Ok(svg)
    }

    fn draw<'a>(
        &self,
        root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
        let small = ("sans-serif", 13).into_font().color(&TEXT);
        let upright = self.has_long_names();
        let mut chart = ChartBuilder::on(root)
            .margin(10)
            .x_label_area_size(self.below())
            .y_label_area_size(70)
            .build_cartesian_2d(-0.5..self.categories.len() as f64 - 0.5, 0.0..self.top())?;
        let labels = |value: &f64| number(*value, self.top());
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh()
            .x_labels(0)
            .y_labels(6)
            .y_label_formatter(&labels)
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(small.clone())
            .axis_desc_style(small.clone())
            .x_desc(self.x.as_str())
            .y_desc(self.y.as_str());
        mesh.draw()?;
        let plane = chart.plotting_area();
        for (n, name) in self.categories.iter().enumerate() {
            let (x, y) = plane.map_coordinate(&(n as f64, 0.0));
            let style = if upright {
                small
                    .clone()
                    .transform(FontTransform::Rotate270)
                    .pos(Pos::new(HPos::Right, VPos::Center))
            } else {
                small.clone().pos(Pos::new(HPos::Center, VPos::Top))
            };
            root.draw(&Text::new(name.clone(), (x, y + 6), style))?;
        }
        match self.kind() {
            Kind::Lines => self.lines(&mut chart),
            Kind::Grouped => self.bars(plane),
        }
    }

    /// Letters of the longest name.
    fn longest(&self) -> u32 {
        let lengths = self.categories.iter().map(|name| name.chars().count());
        lengths.max().unwrap_or(0) as u32
    }

    /// Whether the names do not fit beside each other.
    fn has_long_names(&self) -> bool {
        self.longest() * LETTER * self.categories.len() as u32 > SIZE.0 - 100
    }

    /// Room below the axis: for the names, which stand upright if they are long, and for what
    /// they are.
    fn below(&self) -> u32 {
        let names = if self.has_long_names() {
            self.longest() * LETTER
        } else {
            20
        };
        names + if self.x.is_empty() { 4 } else { 26 }
    }

    fn lines<'a, DB: DrawingBackend>(
        &self,
        chart: &mut ChartContext<
            'a,
            DB,
            Cartesian2d<
                plotters::coord::types::RangedCoordf64,
                plotters::coord::types::RangedCoordf64,
            >,
        >,
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        for (n, series) in self.series.iter().enumerate() {
            let points = series.values.iter().enumerate();
            let points = points.filter_map(|(x, value)| Some((x as f64, (*value)?)));
            let style = colour(n).stroke_width(2);
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            // Told apart without colours too.
            chart.draw_series(points.map(|point| marker(n, point)))?;
        }
        Ok(())
    }

    fn bars<DB: DrawingBackend>(
        &self,
        plane: &DrawingArea<
            DB,
            Cartesian2d<
                plotters::coord::types::RangedCoordf64,
                plotters::coord::types::RangedCoordf64,
            >,
        >,
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        for series in 0..self.series.len() {
            for n in 0..self.categories.len() {
                if let Some(corners) = self.beside(n, series) {
                    plane.draw(&Rectangle::new(corners, colour(series).filled()))?;
                }
            }
        }
        Ok(())
    }

    fn beside(&self, n: usize, series: usize) -> Option<[(f64, f64); 2]> {
        let value = self.series[series].values[n]?;
        let width = 0.8 / self.series.len() as f64;
        let left = n as f64 - 0.4 + width * series as f64;
        // Of 0 a line stays, unlike of nothing.
        let shown = value.max(self.top() * LEAST);
        Some([(left, 0.0), (left + width * 0.92, shown)])
    }
}

/// A value on an axis that ends at `top`, with no more digits than it needs.
fn number(value: f64, top: f64) -> String {
    let digits = if top < 0.5 {
        3
    } else if top < 5.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$}")
}

fn marker<DB: DrawingBackend>(
    n: usize,
    point: (f64, f64),
) -> plotters::element::DynElement<'static, DB, (f64, f64)> {
    let filled = colour(n).filled();
    match n % 3 {
        0 => Circle::new(point, 4, filled).into_dyn(),
        1 => TriangleMarker::new(point, 6, filled).into_dyn(),
        _ => Cross::new(point, 4, colour(n).stroke_width(2)).into_dyn(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(kind: Kind) -> Plot {
        let series = |name: &str, values: &[Option<f64>]| Series {
            name: name.into(),
            values: values.to_vec(),
        };
        Plot {
            title: "t".into(),
            x: "size".into(),
            y: "% of pristine".into(),
            categories: vec!["64K".into(), "<2M>".into()],
            series: vec![
                series("fixed", &[Some(50.0), None]),
                series("patched", &[Some(30.0), Some(20.0)]),
            ],
            kind,
        }
    }

    /// Elements of this name that have this colour.
    fn count(svg: &str, element: &str, n: usize) -> usize {
        let colour = format!("#0102{:02X}\"", 16 + n);
        let lines = svg
            .lines()
            .filter(|line| line.starts_with(&format!("<{element} ")));
        lines.filter(|line| line.contains(&colour)).count()
    }

    #[test]
    fn every_value_is_drawn_in_the_colour_of_its_series() {
        let svg = plot(Kind::Grouped).svg().unwrap();
        let bars = (count(&svg, "rect", 0), count(&svg, "rect", 1));
        assert_eq!(bars, (1, 2), "{svg}");
        let svg = plot(Kind::Lines).svg().unwrap();
        assert_eq!(count(&svg, "circle", 0), 1, "{svg}");
        assert_eq!(count(&svg, "polygon", 1), 2, "{svg}");
        assert_eq!(count(&svg, "polyline", 1), 1, "{svg}");
    }

    #[test]
    fn points_that_no_line_joins_are_bars_and_0_is_seen() {
        let mut plot = plot(Kind::Lines);
        plot.series[0].values = vec![Some(0.0), None];
        plot.series[1].values = vec![None, Some(20.0)];
        let svg = plot.svg().unwrap();
        assert_eq!(
            (count(&svg, "circle", 0), count(&svg, "polygon", 1)),
            (0, 0)
        );
        assert_eq!(
            (count(&svg, "rect", 0), count(&svg, "rect", 1)),
            (1, 1),
            "{svg}"
        );
        let [(_, low), (_, high)] = plot.beside(0, 0).unwrap();
        assert!(high - low >= 0.01 * plot.top(), "{low} {high}");
    }

    #[test]
    fn names_cannot_break_out_of_the_drawing() {
        let svg = plot(Kind::Lines).svg().unwrap();
        assert!(svg.contains("&lt;2M&gt;") && !svg.contains("<2M>"), "{svg}");
    }

    #[test]
    fn a_plot_without_values_is_empty() {
        let mut plot = plot(Kind::Lines);
        assert!(!plot.is_empty());
        plot.series
            .iter_mut()
            .for_each(|series| series.values.fill(None));
        assert!(plot.is_empty());
        assert!(plot.svg().is_ok());
    }
}
