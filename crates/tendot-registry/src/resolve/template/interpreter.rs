//! Evaluation of a `<template>` within the budget.

use std::collections::{BTreeSet, HashMap};

use regex::{Regex, RegexBuilder};
use roxmltree::{Document, Node};
use tendot_proto::record::Namespace;
use tendot_proto::{Budget, HandleValue};

use super::TemplateMatch;
use super::parameters::TemplateParameters;
use crate::prefix::free_index;
use crate::{Error, RecordLimits, cost};

/// Maximum size of a compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 1 << 18;

/// Reference (`ref`) to the value with the template, if any.
pub(super) fn template_reference(source: &str) -> Result<Option<String>, Error> {
    let document = parse_namespace(source)?;
    Ok(template_element(&document).and_then(|template| template.attribute("ref")).map(Into::into))
}

/// Evaluates a template over the base record. `None` if the template says `notfound`; the base values if there is no
/// template.
///
/// The template gets public values only, because the derived values are public.
pub(super) fn evaluate(
    source: &str,
    parts: TemplateMatch<'_>,
    base: &[HandleValue<'static>],
    limits: &RecordLimits,
    budget: &mut Budget,
) -> Result<Option<Vec<HandleValue<'static>>>, Error> {
    budget.charge(cost::bytes(source.len()))?;
    let document = parse_namespace(source)?;
    let Some(template) = template_element(&document) else { return Ok(Some(base.to_vec())) };
    let mut parameters = TemplateParameters::default();
    for (name, text) in [("handle", parts.handle), ("base", parts.base), ("extension", parts.extension)] {
        parameters.set(name, vec![text.to_owned()]);
    }
    let mut run = TemplateInterpreter {
        base: base.iter().filter(|value| value.is_public()).collect(),
        parameters,
        expressions: HashMap::new(),
        values: Vec::new(),
        indexes: BTreeSet::new(),
        bytes: 0,
        limits,
        budget,
    };
    match run.run_children(template, None)? {
        TemplateFlow::Continue => Ok(Some(run.values)),
        TemplateFlow::NotFound => Ok(None),
    }
}

pub(super) fn parse_namespace(source: &str) -> Result<Document<'_>, Error> {
    let invalid = |reason: String| Error::Template { reason };
    // Rejects documents that are too deep or too large for the parser.
    Namespace::from_bytes(source.as_bytes()).map_err(|error| invalid(error.to_string()))?;
    Document::parse(source).map_err(|error| invalid(error.to_string()))
}

pub(super) fn template_element<'d, 'i>(document: &'d Document<'i>) -> Option<Node<'d, 'i>> {
    let root = document.root_element();
    let is_template = |node: &Node<'_, '_>| node.tag_name().name() == "template";
    if is_template(&root) { Some(root) } else { root.children().find(is_template) }
}

/// Compiles the expression of a test, which matches a whole text, case-insensitively.
pub(super) fn compile_expression(expression: &str) -> Result<Regex, Error> {
    RegexBuilder::new(&format!(r"\A(?:{expression})\z"))
        .case_insensitive(true)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .nest_limit(32)
        .build()
        .map_err(|error| Error::Template { reason: error.to_string() })
}

/// Control flow of a template element.
enum TemplateFlow {
    Continue,
    NotFound,
}

/// State of one template evaluation.
struct TemplateInterpreter<'r> {
    base: Vec<&'r HandleValue<'static>>,
    parameters: TemplateParameters,
    /// Compiled expressions, reused in loops.
    expressions: HashMap<String, Regex>,
    values: Vec<HandleValue<'static>>,
    indexes: BTreeSet<u32>,
    bytes: usize,
    limits: &'r RecordLimits,
    budget: &'r mut Budget,
}

impl TemplateInterpreter<'_> {
    /// Runs the child elements. The recursion depth is limited by the depth of the XML.
    fn run_children(
        &mut self,
        parent: Node<'_, '_>,
        current: Option<&HandleValue<'static>>,
    ) -> Result<TemplateFlow, Error> {
        // Result of the preceding `<if>`, for an `<else>`.
        let mut condition = None;
        for node in parent.children().filter(Node::is_element) {
            self.budget.charge(cost::STEP)?;
            let last = condition.take();
            let flow = match node.tag_name().name() {
                "value" => self.run_value(node, current).map(|()| TemplateFlow::Continue),
                "if" => {
                    let holds = self.eval_condition(node)?;
                    condition = Some(holds);
                    if holds { self.run_children(node, current) } else { Ok(TemplateFlow::Continue) }
                }
                "else" if last == Some(false) => self.run_children(node, current),
                "foreach" => self.run_foreach(node),
                "def" => self.run_def(node).map(|()| TemplateFlow::Continue),
                "notfound" => Ok(TemplateFlow::NotFound),
                _ => Ok(TemplateFlow::Continue),
            };
            if let TemplateFlow::NotFound = flow? {
                return Ok(TemplateFlow::NotFound);
            }
        }
        Ok(TemplateFlow::Continue)
    }

    fn run_foreach(&mut self, node: Node<'_, '_>) -> Result<TemplateFlow, Error> {
        for value in self.base.clone() {
            let data = String::from_utf8_lossy(&value.data).into_owned();
            self.budget.charge(cost::bytes(data.len()))?;
            self.parameters.set("index", vec![value.index.to_string()]);
            self.parameters.set("type", vec![value.type_name().into_owned()]);
            self.parameters.set("data", vec![data]);
            if let TemplateFlow::NotFound = self.run_children(node, Some(value))? {
                return Ok(TemplateFlow::NotFound);
            }
        }
        Ok(TemplateFlow::Continue)
    }

    fn run_def(&mut self, node: Node<'_, '_>) -> Result<(), Error> {
        let text = self.substitute(node.text().unwrap_or_default().trim())?;
        if let Some(name) = node.attribute("parameter") {
            self.parameters.set(name, vec![text]);
        }
        Ok(())
    }

    /// Evaluates the test of an `<if>`. On a match, `parameter` is set to the matched text and capture groups.
    fn eval_condition(&mut self, node: Node<'_, '_>) -> Result<bool, Error> {
        let name = node.attribute("value").unwrap_or_default();
        let text = self.parameters.get(name).map(str::to_owned);
        let expression = node.attribute("expression").unwrap_or_default();
        let found = match (text, node.attribute("test").unwrap_or("equals")) {
            (None, _) => None,
            (Some(text), "equals") => text.eq_ignore_ascii_case(expression).then(|| vec![text]),
            (Some(text), "matches") => self.match_regex(&text, expression)?,
            (_, other) => return Err(Error::Template { reason: format!("unknown test `{other}`") }),
        };
        let holds = found.is_some() != (node.attribute("negate") == Some("true"));
        if let (Some(found), Some(name)) = (found, node.attribute("parameter")) {
            self.parameters.set(name, found);
        }
        Ok(holds)
    }

    /// Capture groups of an expression that matches a whole text, case-insensitively.
    fn match_regex(&mut self, text: &str, expression: &str) -> Result<Option<Vec<String>>, Error> {
        self.budget.charge(cost::bytes(text.len().saturating_add(expression.len())))?;
        if !self.expressions.contains_key(expression) {
            self.budget.charge(cost::REGEX_COMPILE)?;
            self.expressions.insert(expression.to_owned(), compile_expression(expression)?);
        }
        let Some(captures) = self.expressions.get(expression).and_then(|regex| regex.captures(text)) else {
            return Ok(None);
        };
        let part =
            |part: Option<regex::Match<'_>>| part.map_or_else(String::new, |part| part.as_str().into());
        Ok(Some(captures.iter().map(part).collect()))
    }

    /// Adds a value, based on the current value of the loop if there is one.
    fn run_value(&mut self, node: Node<'_, '_>, current: Option<&HandleValue<'static>>) -> Result<(), Error> {
        let invalid = |reason: &str| Error::Template { reason: reason.into() };
        let mut value = match (current, node.attribute("type")) {
            (Some(current), _) => current.clone(),
            (None, Some(_)) => {
                let timestamp = self.base.iter().map(|value| value.timestamp).max().unwrap_or_default();
                HandleValue { timestamp, ..HandleValue::new(1, "", "") }
            }
            (None, None) => return Err(invalid("`<value>` outside `<foreach>` needs a `type`")),
        };
        if let Some(value_type) = node.attribute("type") {
            value.value_type = self.substitute(value_type)?.into_bytes().into();
        }
        if let Some(index) = node.attribute("index") {
            let index = self.substitute(index)?.trim().parse();
            value.index = index.map_err(|_| invalid("invalid value index"))?;
        }
        let text = node.text().map(str::trim).filter(|text| !text.is_empty());
        if let Some(data) = node.attribute("data").or(text) {
            value.data = self.substitute(data)?.into_bytes().into();
        }
        value.index = self.next_free_index(value.index).ok_or_else(|| invalid("no free value index"))?;
        self.push_value(value)
    }

    /// `index` if it is free, or the next free one.
    fn next_free_index(&self, index: u32) -> Option<u32> {
        let free = free_index(index, &self.indexes);
        (index > 0 && free <= i32::MAX as u32).then_some(free)
    }

    fn push_value(&mut self, value: HandleValue<'static>) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(value.data.len()).saturating_add(value.value_type.len() + 26);
        // Includes the search for a free index.
        self.budget.charge(cost::bytes(value.data.len().saturating_add(self.indexes.len())))?;
        if self.values.len() >= self.limits.max_values || self.bytes > self.limits.max_record_bytes {
            return Err(Error::Template { reason: "result exceeds the record limits".into() });
        }
        self.indexes.insert(value.index);
        self.values.push(value);
        Ok(())
    }

    fn substitute(&mut self, text: &str) -> Result<String, Error> {
        let limit = self.limits.max_value_bytes.min(self.limits.max_record_bytes);
        let substituted = self.parameters.substitute(text, limit);
        let substituted =
            substituted.ok_or_else(|| Error::Template { reason: format!("text exceeds {limit} bytes") })?;
        self.budget.charge(cost::bytes(substituted.len().saturating_add(text.len())))?;
        Ok(substituted)
    }
}

#[cfg(test)]
mod tests {
    use tendot_proto::ValuePermissions;

    use super::*;

    /// 1 and 2 are public, 3 is not.
    fn base() -> Vec<HandleValue<'static>> {
        vec![
            HandleValue { timestamp: 5, ..HandleValue::new(1, "URL", "https://example.org/map") },
            HandleValue::new(2, "EMAIL", "a@example.org"),
            HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(3, "HS_SECKEY", "secret") },
        ]
    }

    fn outcome(template: &str, extension: &str) -> Result<Option<Vec<String>>, String> {
        let source = format!("<namespace><template delimiter='@'>{template}</template></namespace>");
        let handle = format!("10.1/map@{extension}");
        let parts = TemplateMatch { handle: &handle, base: "10.1/map", extension };
        let values = evaluate(&source, parts, &base(), &RecordLimits::default(), &mut Budget::new(50_000));
        let format_value = |value: &HandleValue<'_>| {
            format!("{} {} {}", value.index, value.type_name(), String::from_utf8_lossy(&value.data))
        };
        let format_value = |values: Vec<HandleValue<'_>>| values.iter().map(format_value).collect();
        values.map(|values| values.map(format_value)).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(template: &str, extension: &str, expected: &[&str]) {
        let expected = Ok(Some(expected.iter().map(|value| (*value).into()).collect()));
        assert_eq!(outcome(template, extension), expected, "{template}");
    }

    #[track_caller]
    fn check_fault(template: &str, expected: &str) {
        let found = outcome(template, &"x".repeat(1_000)).unwrap_err();
        assert!(found.starts_with(expected), "{found}");
    }

    #[test]
    fn values() {
        check("", "x", &[]);
        check("<value type='URL' data='https://x/?${extension}'/>", "a b", &["1 URL https://x/?a b"]);
        check("<value type='URL' index='7'>${handle} ${base}</value>", "x", &["7 URL 10.1/map@x 10.1/map"]);
        check("<value type='A'/><value type='B'/><value index='1' type='C'/>", "", &["1 A ", "2 B ", "3 C "]);
        check(
            "<foreach><value/></foreach>",
            "x",
            &["1 URL https://example.org/map", "2 EMAIL a@example.org"],
        );
        check(
            "<foreach><value data='${index} ${type} ${data}'/></foreach><value type='X' data='\\${data}'/>",
            "x",
            &["1 URL 1 URL https://example.org/map", "2 EMAIL 2 EMAIL a@example.org", "3 X ${data}"],
        );
        check("<def parameter='p'>${extension}!</def><value type='X'>${p}</value>", "e", &["1 X e!"]);
        check("<unknown><value type='X'/></unknown>", "e", &[]);
    }

    #[test]
    fn conditions() {
        let boxes = r"<foreach><if value='type' test='equals' expression='url'>
            <if value='extension' test='matches' expression='box\(([^,]*),([^,]*)\)' parameter='x'>
            <value data='${data}?w=${x[1]}&amp;h=${x[2]}'/></if><else><value data='${data}?${extension}'/></else>
            </if><else><value/></else></foreach>";
        let url = |query: &str| format!("1 URL https://example.org/map?{query}");
        check(boxes, "box(1,2)", &[&url("w=1&h=2"), "2 EMAIL a@example.org"]);
        check(boxes, "BOX(1,2)", &[&url("w=1&h=2"), "2 EMAIL a@example.org"]);
        check(boxes, "abox(1,2)", &[&url("abox(1,2)"), "2 EMAIL a@example.org"]);
        check(boxes, "box(1,2)b", &[&url("box(1,2)b"), "2 EMAIL a@example.org"]);
        let negated = "<if value='extension' expression='a' negate='true'><value type='N'/></if>\
            <else><value type='Y'/></else>";
        check(negated, "A", &["1 Y "]);
        check(negated, "b", &["1 N "]);
        check("<else><value type='X'/></else>", "", &[]);
        check("<if value='none' expression=''><value type='X'/></if>", "", &[]);
        check(
            "<if value='extension' test='matches' expression='a|ab'><value type='X'/></if>",
            "ab",
            &["1 X "],
        );
    }

    #[test]
    fn not_found() {
        let only_numbers = "<if value='extension' test='matches' expression='[0-9]+'><value type='X'/></if>\
            <else><notfound/></else>";
        check(only_numbers, "12", &["1 X "]);
        assert_eq!(outcome(only_numbers, "a"), Ok(None));
        assert_eq!(outcome("<value type='X'/><foreach><notfound/></foreach>", ""), Ok(None));
    }

    #[test]
    fn bounds() {
        check_fault("<value/>", "invalid prefix template: `<value>` outside `<foreach>` needs a `type`");
        check_fault("<value type='X' index='x'/>", "invalid prefix template: invalid value index");
        check_fault("<value type='X' index='0'/>", "invalid prefix template: no free value index");
        check_fault(
            "<if value='extension' test='like' expression=''/>",
            "invalid prefix template: unknown test",
        );
        check_fault(
            "<if value='extension' test='matches' expression='('/>",
            "invalid prefix template: regex parse error",
        );
        check_fault(
            r"<if value='extension' test='matches' expression='(\w{100}){100}'/>",
            "invalid prefix template: Compiled regex exceeds size limit",
        );
        let many = "<foreach>".repeat(13) + &"</foreach>".repeat(13);
        assert!(outcome(&many, "").is_ok(), "two values, thirteen times");
        let loops = "<foreach>".repeat(13) + &"<value/>".repeat(1_000) + &"</foreach>".repeat(13);
        check_fault(&loops, "invalid prefix template: result exceeds the record limits");
        let idle = "<foreach>".repeat(13) + &"<unknown/>".repeat(1_000) + &"</foreach>".repeat(13);
        check_fault(&idle, "work budget exceeded: 1 units required, 0 remaining");
        let doubled = "<def parameter='p'>${p}${p}x</def>".repeat(30) + "<value type='X'>${p}</value>";
        check_fault(&doubled, "invalid prefix template: text exceeds");
        let backtracking = r"<if value='extension' test='matches' expression='(x+x+)+y'/>";
        assert_eq!(outcome(backtracking, &"x".repeat(2_000)), Ok(Some(Vec::new())));
        check_fault(&"<foreach>".repeat(20), "invalid prefix template: HS_NAMESPACE at byte");
    }
}
