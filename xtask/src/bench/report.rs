//! `docs/reference/performance.md`: each benchmark replaces its own section, and the plot of its ratios.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};

use crate::root;

const PAGE: &str = "docs/reference/performance.md";

/// Replaces the lines between `<!-- begin: SECTION -->` and `<!-- end: SECTION -->`.
pub(crate) fn write_section(section: &str, text: &str) -> Result<()> {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let page = replace_section(&page, section, text)
        .with_context(|| format!("{PAGE} has no section between the marks of `{section}`"))?;
    Ok(fs::write(path, page)?)
}

fn replace_section(page: &str, section: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- begin: {section} -->\n"), format!("<!-- end: {section} -->\n"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

/// One bar of a plot: Tendot relative to a peer.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) ratio: f64,
}

/// Writes a bar chart of ratios to `docs/images/performance-SECTION.svg`; the line is at 1, the speed of the peer.
pub(crate) fn write_plot(section: &str, bars: &[Bar]) -> Result<()> {
    let folder = root().join("docs/images");
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(format!("performance-{section}.svg")), plot(bars)?)?)
}

const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 380.0;
const BAR_HEIGHT: f64 = 22.0;
const ROW_HEIGHT: f64 = 32.0;
/// Space for the number after the longest bar.
const NUMBER_WIDTH: f64 = 60.0;

fn plot(bars: &[Bar]) -> Result<String> {
    let longest = bars.iter().map(|bar| bar.ratio).fold(1.0, f64::max);
    let scale = (WIDTH - LABEL_WIDTH - NUMBER_WIDTH) / longest;
    let height = ROW_HEIGHT * bars.len() as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <style>text {{ fill: #24292f }} rect {{ fill: #2a6f97 }} line {{ stroke: #888; stroke-dasharray: 4 3 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} rect {{ fill: #61a5c2 }} }}</style>\n"
    );
    for (row, Bar { label, ratio }) in bars.iter().enumerate() {
        let top = ROW_HEIGHT * row as f64 + 8.0;
        let (length, baseline) = (ratio * scale, top + BAR_HEIGHT - 6.0);
        let label = label.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{baseline:.0}\" text-anchor=\"end\">{label}</text>\
             <rect x=\"{LABEL_WIDTH:.0}\" y=\"{top:.0}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT:.0}\"/>\
             <text x=\"{:.1}\" y=\"{baseline:.0}\">{ratio:.2} ×</text>",
            LABEL_WIDTH - 8.0,
            LABEL_WIDTH + length + 6.0,
        )?;
    }
    let peer = LABEL_WIDTH + scale;
    writeln!(svg, "<line x1=\"{peer:.1}\" y1=\"0\" x2=\"{peer:.1}\" y2=\"{height:.0}\"/>\n</svg>")?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::{Bar, plot, replace_section};

    #[test]
    fn replaces_only_its_own_section() {
        let page = "a\n<!-- begin: http -->\nold\n<!-- end: http -->\nb\n";
        let expected = "a\n<!-- begin: http -->\n\nnew\n\n<!-- end: http -->\nb\n";
        assert_eq!(replace_section(page, "http", "new\n").as_deref(), Some(expected));
        assert_eq!(replace_section(page, "native", "new"), None);
    }

    #[test]
    fn longest_bar_fits_and_labels_are_escaped() {
        let bar = |label: &str, ratio| Bar { label: label.into(), ratio };
        let svg = plot(&[bar("a < b", 0.5), bar("c", 8.0)]).expect("a string can be written to");
        assert!(svg.contains("a &lt; b") && svg.contains("width=\"320.0\""), "{svg}");
    }
}
