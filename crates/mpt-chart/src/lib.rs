//! Charts as SVG: axes, a grid, a legend, and lines, steps, dots or bars.
//!
//! `mpt-ctl measure --plot`, `mpt-ctl trace --svg` ([`rates`]), `mpt-ctl history --svg` ([`history`]) and the benches
//! draw with it. It does what they need and no more: ranges follow from the points, y begins at 0, and texts are escaped.

pub mod history;
pub mod rates;

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;
const COLOURS: [&str; 8] = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#555555", "#17becf", "#8c564b",
];

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Points joined by a line.
    Line,
    /// Each y holds until the next x; one that is not finite breaks the line.
    Steps,
    /// A bar from 0 for each point; x are whole numbers.
    Bars,
    /// Points alone: what a chart compares with.
    Dots,
}

/// One named set of points.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// x and y; what is not finite is not drawn.
    pub points: Vec<(f64, f64)>,
}

/// A chart; ranges follow from the points, y begins at 0 where it is linear.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below the x axis, with the unit.
    pub x_label: &'a str,
    /// Beside the y axis, with the unit.
    pub y_label: &'a str,
    /// Logarithmic x; points at x ≤ 0 are left out.
    pub x_log: bool,
    /// Logarithmic y, over six decades at most; points at y ≤ 0 are left out. It does not begin at 0 then.
    pub y_log: bool,
    /// What it shows.
    pub series: Vec<Series>,
}

/// Several charts below each other, as one SVG document.
#[must_use]
pub fn page(charts: &[Chart<'_>]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        HEIGHT * charts.len() as f64
    );
    for (place, chart) in charts.iter().enumerate() {
        let drawing = chart.drawing();
        if place == 0 {
            svg += &drawing;
        } else {
            let down = HEIGHT * place as f64;
            let _ = writeln!(svg, "<g transform=\"translate(0 {down})\">\n{drawing}</g>");
        }
    }
    svg.push_str("</svg>\n");
    svg
}

impl Chart<'_> {
    /// The chart as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        page(std::slice::from_ref(self))
    }

    fn drawing(&self) -> String {
        let frame = self.frame();
        let mut svg = String::new();
        self.axes(&mut svg, &frame);
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            series.draw(&mut svg, &frame, colour);
        }
        self.legend(&mut svg, &frame);
        svg
    }

    fn frame(&self) -> Frame {
        let points = || {
            self.series
                .iter()
                .flat_map(|series| series.shown(self.x_log, self.y_log))
        };
        let xs = || points().map(|(x, _)| x);
        let least = xs().fold(f64::INFINITY, f64::min);
        let greatest = xs().fold(f64::NEG_INFINITY, f64::max);
        let top = points().map(|(_, y)| y).fold(0.0, f64::max);
        let lowest = points().map(|(_, y)| y).fold(f64::INFINITY, f64::min);
        let (least, greatest) = match (least < greatest, least.is_finite(), self.x_log) {
            (true, _, _) => (least, greatest),
            (false, true, true) => (least / 2.0, least * 2.0),
            (false, true, false) => (least - 1.0, least + 1.0),
            (false, false, _) => (0.1, 1.0),
        };
        Frame {
            x_log: self.x_log,
            x: (least, greatest),
            floor: self.y_log.then(|| floor(lowest, top)),
            top: if top > 0.0 { top * 1.05 } else { 1.0 },
        }
    }

    fn axes(&self, svg: &mut String, frame: &Frame) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for x in frame.x_ticks() {
            let at = frame.x_at(x);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                label(x)
            );
        }
        for y in frame.y_ticks() {
            let at = frame.y_at(y);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                label(y)
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" stroke=\"black\" fill=\"none\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{}</text>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(self.title),
            (LEFT + right) / 2.0,
            HEIGHT - 12.0,
            escaped(self.x_label),
            (TOP + bottom) / 2.0,
            escaped(self.y_label)
        );
    }

    /// In the upper corner that is emptier.
    fn legend(&self, svg: &mut String, frame: &Frame) {
        let height = |left: bool| {
            let points = self
                .series
                .iter()
                .flat_map(|series| series.shown(frame.x_log, frame.floor.is_some()));
            let side = points.filter(|&(x, _)| (frame.x_at(x) < WIDTH / 2.0) == left);
            side.map(|(_, y)| y).fold(0.0, f64::max)
        };
        let on_the_right = height(false) < height(true);
        for (row, (series, colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let y = TOP + 16.0 + 17.0 * row as f64;
            let x = if on_the_right {
                WIDTH - RIGHT - 250.0
            } else {
                LEFT + 14.0
            };
            let _ = writeln!(
                svg,
                "<circle cx=\"{x}\" cy=\"{}\" r=\"5\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{y}\">{}</text>",
                y - 4.0,
                x + 11.0,
                escaped(&series.name)
            );
        }
    }
}

impl Series {
    /// The points that can be drawn.
    fn shown(&self, x_log: bool, y_log: bool) -> impl Iterator<Item = (f64, f64)> + '_ {
        let finite = |&&(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
        let points = self.points.iter().filter(finite).copied();
        points.filter(move |&(x, y)| (!x_log || x > 0.0) && (!y_log || y > 0.0))
    }

    fn draw(&self, svg: &mut String, frame: &Frame, colour: &str) {
        let at: Vec<(f64, f64)> = self
            .shown(frame.x_log, frame.floor.is_some())
            .map(|(x, y)| (frame.x_at(x), frame.y_at(y)))
            .collect();
        match self.mark {
            Mark::Line => {
                let path: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                let _ = writeln!(
                    svg,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
                    path.join(" ")
                );
            }
            Mark::Steps => {
                let _ = writeln!(
                    svg,
                    "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
                    self.steps(frame)
                );
            }
            Mark::Bars => {
                let bottom = HEIGHT - BOTTOM;
                let width = (frame.x_at(0.8) - frame.x_at(0.0)).clamp(1.0, 40.0);
                for (x, y) in &at {
                    let _ = writeln!(
                        svg,
                        "<path d=\"M{x:.1} {bottom:.1}V{y:.1}\" stroke=\"{colour}\" \
                         stroke-width=\"{width:.1}\"/>"
                    );
                }
            }
            Mark::Dots => at.iter().for_each(|(x, y)| {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"
                );
            }),
        }
    }
}

impl Series {
    /// The way of a pen that draws the points as steps.
    fn steps(&self, frame: &Frame) -> String {
        let mut path = String::new();
        let mut is_down = false;
        for &(x, y) in self.points.iter().filter(|(x, _)| x.is_finite()) {
            let is_shown = y.is_finite() && (frame.floor.is_none() || y > 0.0);
            let _ = match (is_down, is_shown) {
                (true, true) => write!(path, "H{:.1}V{:.1}", frame.x_at(x), frame.y_at(y)),
                (true, false) => write!(path, "H{:.1}", frame.x_at(x)),
                (false, true) => write!(path, "M{:.1} {:.1}", frame.x_at(x), frame.y_at(y)),
                (false, false) => Ok(()),
            };
            is_down = is_shown;
        }
        path
    }
}

/// Where values lie on the page.
struct Frame {
    x_log: bool,
    x: (f64, f64),
    /// Where a logarithmic y begins; a linear one begins at 0.
    floor: Option<f64>,
    top: f64,
}

impl Frame {
    fn x_at(&self, x: f64) -> f64 {
        let scale = |v: f64| if self.x_log { v.ln() } else { v };
        let (least, greatest) = (scale(self.x.0), scale(self.x.1));
        LEFT + (scale(x) - least) / (greatest - least) * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, y: f64) -> f64 {
        let share = match self.floor {
            None => y / self.top,
            Some(floor) => (y.max(floor) / floor).ln() / (self.top / floor).ln(),
        };
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn y_ticks(&self) -> Vec<f64> {
        let Some(floor) = self.floor else {
            return ticks(0.0, self.top);
        };
        let decades = floor.log10().round() as i32..=self.top.log10().floor() as i32;
        decades.map(|decade| 10f64.powi(decade)).collect()
    }

    fn x_ticks(&self) -> Vec<f64> {
        if !self.x_log {
            return ticks(self.x.0, self.x.1);
        }
        let decades = self.x.0.log10().floor() as i32..=self.x.1.log10().ceil() as i32;
        let steps = decades.flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(d)));
        let inside = |x: &f64| *x >= self.x.0 * 0.999 && *x <= self.x.1 * 1.001;
        steps.filter(inside).collect()
    }
}

/// The power of ten below the least of what is shown, six decades below the greatest at most.
fn floor(lowest: f64, greatest: f64) -> f64 {
    if !(lowest > 0.0 && lowest.is_finite() && greatest > 0.0) {
        return 0.1;
    }
    // A bar at the floor itself would not be seen.
    let below = (lowest * 0.999).log10().floor();
    10f64.powf(below.max(greatest.log10().floor() - 6.0))
}

/// Five to ten round values from `least` to `greatest`.
fn ticks(least: f64, greatest: f64) -> Vec<f64> {
    let rough = (greatest - least) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|&step| step >= rough)
        .unwrap_or(rough);
    let first = (least / step).ceil() as i64;
    let last = (greatest / step).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

fn label(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        return format!("{value:e}");
    }
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)], mark: Mark) -> Chart<'static> {
        let series = Series {
            name: "a < b & c".into(),
            mark,
            points: points.to_vec(),
        };
        Chart {
            title: "title",
            x_label: "x",
            y_label: "y",
            x_log: false,
            y_log: false,
            series: vec![series],
        }
    }

    #[test]
    fn a_small_share_beside_a_large_one_is_seen_on_a_logarithmic_scale() {
        let points = [(0.0, 0.65), (1.0, 0.0), (2.0, 0.0005)];
        let heights = |y_log| {
            let chart = Chart {
                y_log,
                ..chart(&points, Mark::Bars)
            };
            let frame = chart.frame();
            (frame.y_at(0.0005), HEIGHT - BOTTOM, chart.svg())
        };
        let (linear, bottom, _) = heights(false);
        assert!(bottom - linear < 1.0, "less than a pixel");
        let (log, _, svg) = heights(true);
        assert!(bottom - log > 30.0);
        assert!(svg.contains(">1e-4<") && svg.contains(">0.01<"), "{svg}");
    }

    #[test]
    fn names_are_escaped() {
        assert!(chart(&[], Mark::Line).svg().contains("a &lt; b &amp; c"));
    }

    #[test]
    fn one_point_and_none_and_wild_ones_give_no_wild_numbers() {
        for mark in [Mark::Line, Mark::Steps, Mark::Bars, Mark::Dots] {
            for points in [
                &[][..],
                &[(0.0, 1.0)],
                &[(f64::NAN, 1.0), (1.0, f64::INFINITY)],
            ] {
                for y_log in [false, true] {
                    let chart = Chart {
                        y_log,
                        ..chart(points, mark)
                    };
                    let svg = chart.svg();
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                }
            }
        }
    }

    #[test]
    fn steps_hold_until_the_next_and_break_where_there_is_no_value() {
        let points = [
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, f64::NAN),
            (3.0, 1.0),
            (4.0, 1.0),
        ];
        let svg = chart(&points, Mark::Steps).svg();
        let (_, path) = svg.rsplit_once("<path d=\"").unwrap();
        let pen: String = path
            .split('"')
            .next()
            .unwrap()
            .chars()
            .filter(char::is_ascii_alphabetic)
            .collect();
        assert_eq!(pen, "MHVHMHV");
    }

    #[test]
    fn a_page_stacks_its_charts() {
        let one = chart(&[(0.0, 0.5), (1.0, 0.5)], Mark::Bars);
        let two = page(&[one.clone(), one.clone()]);
        assert!(two.contains("viewBox=\"0 0 720 880\"") && two.contains("translate(0 440)"));
        assert_eq!(one.svg().matches("<svg").count(), 1);
    }
}
