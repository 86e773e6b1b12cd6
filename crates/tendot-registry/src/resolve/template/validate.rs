//! Check of an `HS_NAMESPACE` value when it is written, so that a faulty template is refused instead of failing each resolution.

use std::collections::HashSet;

use roxmltree::Node;
use tendot_proto::{Budget, ValueReference};

use super::interpreter::{compile_expression, parse_namespace, template_element};
use crate::{Error, cost};

/// Checks that a namespace is well-formed, and that its template can be evaluated.
///
/// Unknown elements are accepted, because evaluation ignores them. The work is limited by the budget of the request, as it is
/// when the template is evaluated.
pub(crate) fn check_namespace(data: &[u8], budget: &mut Budget) -> Result<(), Error> {
    let source = str::from_utf8(data).map_err(|_| invalid("not UTF-8"))?;
    let document = parse_namespace(source)?;
    let Some(template) = template_element(&document) else { return Ok(()) };
    if let Some(reference) = template.attribute("ref") {
        let parsed = ValueReference::parse(reference);
        let is_value = parsed.index > 0 && parsed.handle().validate().is_ok();
        return if is_value { Ok(()) } else { Err(invalid(&format!("invalid reference `{reference}`"))) };
    }
    if template.attribute("delimiter") == Some("") {
        return Err(invalid("empty delimiter"));
    }
    let mut check = TemplateCheck { expressions: HashSet::new(), budget };
    check.check_children(template, false)
}

fn invalid(reason: &str) -> Error {
    Error::Template { reason: reason.into() }
}

/// Check of the elements of a template.
struct TemplateCheck<'d, 'b> {
    /// Compiled expressions.
    expressions: HashSet<&'d str>,
    budget: &'b mut Budget,
}

impl<'d> TemplateCheck<'d, '_> {
    /// Checks the child elements. The recursion depth is limited by the depth of the XML.
    fn check_children(&mut self, parent: Node<'d, '_>, in_loop: bool) -> Result<(), Error> {
        for node in parent.children().filter(Node::is_element) {
            self.budget.charge(cost::STEP)?;
            match node.tag_name().name() {
                "value" => check_value_element(node, in_loop)?,
                "if" => {
                    self.check_condition(node)?;
                    self.check_children(node, in_loop)?;
                }
                "else" => self.check_children(node, in_loop)?,
                "foreach" => self.check_children(node, true)?,
                "def" if node.attribute("parameter").is_none() => {
                    return Err(invalid("`<def>` needs a `parameter`"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_condition(&mut self, node: Node<'d, '_>) -> Result<(), Error> {
        if node.attribute("value").is_none() {
            return Err(invalid("`<if>` needs a `value`"));
        }
        match node.attribute("test").unwrap_or("equals") {
            "equals" => Ok(()),
            "matches" => {
                let expression = node.attribute("expression").unwrap_or_default();
                if self.expressions.insert(expression) {
                    self.budget.charge(cost::REGEX_COMPILE)?;
                    compile_expression(expression)?;
                }
                Ok(())
            }
            other => Err(invalid(&format!("unknown test `{other}`"))),
        }
    }
}

fn check_value_element(node: Node<'_, '_>, in_loop: bool) -> Result<(), Error> {
    if !in_loop && node.attribute("type").is_none() {
        return Err(invalid("`<value>` outside `<foreach>` needs a `type`"));
    }
    match node.attribute("index") {
        // Known when it is evaluated.
        Some(index) if index.contains(['$', '\\']) => Ok(()),
        Some(index) => match index.trim().parse::<i32>() {
            Ok(1..) => Ok(()),
            _ => Err(invalid("invalid value index")),
        },
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(xml: &str, expected: &str) {
        let checked = check_namespace(xml.as_bytes(), &mut Budget::PER_REQUEST.clone());
        let found = checked.map_or_else(|error| error.to_string(), |()| String::new());
        assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{xml}: {found}");
    }

    #[track_caller]
    fn check_template(inside: &str, expected: &str) {
        check(&format!("<namespace><template delimiter='@'>{inside}</template></namespace>"), expected);
    }

    #[test]
    fn namespaces() {
        check("<namespace/>", "");
        check("<namespace><status>inactive</status></namespace>", "");
        check("<namespace><template ref='7:10.2/t' delimiter='@'/></namespace>", "");
        check(
            "<namespace><template ref='nothing' delimiter='@'/></namespace>",
            "invalid prefix template: invalid reference",
        );
        check("<namespace><template delimiter=''/></namespace>", "invalid prefix template: empty delimiter");
        check("", "invalid prefix template: HS_NAMESPACE");
        check("not XML", "invalid prefix template: HS_NAMESPACE");
        check("<namespace><template></namespace>", "invalid prefix template: ");
        check("<!DOCTYPE n><namespace/>", "invalid prefix template: HS_NAMESPACE");
        assert!(check_namespace(b"<namespace>\xff</namespace>", &mut Budget::PER_REQUEST.clone()).is_err());
    }

    #[test]
    fn templates() {
        check_template("", "");
        check_template("<foreach><value data='${data}?${extension}'/></foreach>", "");
        check_template("<unknown><value/></unknown><notfound/>", "");
        check_template("<value/>", "invalid prefix template: `<value>` outside `<foreach>` needs a `type`");
        check_template(
            "<if value='extension' expression='x'><value/></if>",
            "invalid prefix template: `<value>` outside",
        );
        check_template("<value type='X' index='${extension}'/>", "");
        for index in ["0", "-1", "x", "2147483648"] {
            let value = format!("<value type='X' index='{index}'/>");
            check_template(&value, "invalid prefix template: invalid value index");
        }
        check_template("<if value='extension' test='like'/>", "invalid prefix template: unknown test `like`");
        check_template("<if test='equals'/>", "invalid prefix template: `<if>` needs a `value`");
        check_template("<def>x</def>", "invalid prefix template: `<def>` needs a `parameter`");
        check_template(
            "<if value='extension' test='matches' expression='('/>",
            "invalid prefix template: regex parse error",
        );
        check_template(
            r"<if value='extension' test='matches' expression='(\w{100}){100}'/>",
            "invalid prefix template: Compiled regex exceeds size limit",
        );
        let many: String =
            (0..300).map(|number| format!("<if value='x' test='matches' expression='{number}'/>")).collect();
        check_template(&many, "work budget exceeded");
    }
}
