//! Attribute descriptions: an attribute type with options (`servers/slapd/ad.c`).

use crate::{AttributeId, Result, Schema, refuse};

/// An attribute description, as slapd stores it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Description {
    pub attribute: AttributeId,
    /// The value in `ad2i`: the type's name as spelled in the schema, then the sorted options in lower case.
    pub text: String,
    /// Whether the description has the option `;binary`.
    pub binary: bool,
    /// Whether the description has other options.
    pub tagged: bool,
}

impl Description {
    /// Returns the options without the first `;`; empty if there are none.
    pub fn options(&self) -> &str {
        self.text.split_once(';').map_or("", |(_, options)| options)
    }
}

/// Limits in slapd's parser for the number of options and for their total length.
const MAX_OPTIONS: usize = 128;
const MAX_OPTIONS_LENGTH: usize = 1024;

impl Schema {
    /// Parses a description such as `cn;lang-EN`, with any name or the OID of its type.
    pub fn describe(&self, description: &[u8]) -> Result<Description> {
        let text = self.description_text(description)?;
        let (base, options) = text.split_once(';').map_or((text, None), |(base, options)| (base, Some(options)));
        let Some(attribute) = self.attribute(base.as_bytes()) else {
            return refuse(format!("attribute type \"{base}\" is not in the schema"));
        };
        let kind = self.get(attribute);
        match options {
            None => Ok(Description { attribute, text: kind.name.clone(), binary: false, tagged: false }),
            Some(_) if kind.operational() => refuse(format!("\"{}\" is operational and takes no options", kind.name)),
            Some(options) => self.with_options(attribute, options),
        }
    }

    /// Parses the description of an attribute with values. Like slapadd, requires `;binary` if the syntax does.
    pub fn describe_stored(&self, description: &[u8]) -> Result<Description> {
        let description = self.describe(description)?;
        let kind = self.get(description.attribute);
        if kind.binary() && !description.binary {
            return refuse(format!("\"{}\" must be given as \"{};binary\"", description.text, kind.name));
        }
        Ok(description)
    }

    fn description_text<'a>(&self, description: &'a [u8]) -> Result<&'a str> {
        let lead = description.first().is_some_and(u8::is_ascii_alphanumeric);
        let ranges = || self.options().iter().any(|option| option.ends_with('='));
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.;".contains(byte) || *byte == b'=' && ranges();
        match std::str::from_utf8(description) {
            Ok(text) if lead && description.iter().all(fits) => Ok(text),
            _ => refuse("not an attribute description"),
        }
    }

    fn with_options(&self, attribute: AttributeId, options: &str) -> Result<Description> {
        let kind = self.get(attribute);
        let (mut binary, mut tags) = (false, Vec::new());
        for option in options.split(';') {
            let option = option.to_ascii_lowercase();
            match option.as_str() {
                "" => return refuse("an option is empty"),
                "binary" if binary => return refuse("option \"binary\" is given twice"),
                "binary" if !kind.binary() => {
                    return refuse(format!("option \"binary\" does not go with \"{}\"", kind.name));
                }
                "binary" => binary = true,
                _ if !self.knows_option(&option) => return refuse(format!("option \"{option}\" is not known")),
                _ => tags.push(option),
            }
        }
        tags.sort_unstable();
        tags.dedup();
        if tags.len() > MAX_OPTIONS || tags.iter().map(|tag| tag.len() + 1).sum::<usize>() > MAX_OPTIONS_LENGTH {
            return refuse("too many options");
        }
        let tagged = !tags.is_empty();
        if binary {
            tags.insert(tags.partition_point(|tag| tag.as_str() < "binary"), "binary".into());
        }
        let text = format!("{};{}", kind.name, tags.join(";"));
        Ok(Description { attribute, text, binary, tagged })
    }

    fn knows_option(&self, option: &str) -> bool {
        let prefix = |known: &str| known.ends_with(['-', '=']);
        let matches = |known: &String| known == option || prefix(known) && option.starts_with(known.as_str());
        self.options().iter().any(matches)
    }
}
