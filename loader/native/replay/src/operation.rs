//! One entry of cn=accesslog (slapo-accesslog(5)): the parts that a replay needs.

use common::{Code, Error, Result};
use ldif::Record;
use tree::csn::{pack, sid};

/// OID of the Transaction Specification control (RFC 5805), as in reqControls.
const TRANSACTION: &[u8] = b"1.3.6.1.1.21.2";
/// OID of the control Permissive Modify: values to add may exist, and values to delete may be missing.
const PERMISSIVE: &[u8] = b"1.2.840.113556.1.4.1413";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Add,
    Modify,
    Rename,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Add,
    Delete,
    Replace,
    Increment,
    /// The operator `?` of contrib/vernum: adds a value if the attribute is missing.
    IfAbsent,
}

/// A change of one attribute.
pub struct Change {
    pub description: Box<[u8]>,
    pub kind: Kind,
    pub values: Vec<Box<[u8]>>,
}

/// A logged write. `csn` is the entryCSN of the log entry.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a field of the log entry")]
pub struct Operation {
    pub kind: Option<Type>,
    pub csn: String,
    /// entryUUID of the log entry.
    pub own_uuid: Option<u128>,
    /// reqStart and reqEnd. Both are numbered in one sequence, so they can be compared with each other.
    pub start: String,
    pub end: String,
    pub session: Vec<u8>,
    pub author: String,
    pub failed: bool,
    pub transaction: bool,
    pub permissive: bool,
    pub dn: Vec<u8>,
    pub uuid: Option<u128>,
    pub changes: Vec<Change>,
    /// The new entryUUID, if a modify operation with the control relax replaces the entryUUID.
    pub new_uuid: Option<u128>,
    /// Whether the operation changes only contextCSN; `None` if the operation changes no attribute.
    pub only_context: Option<bool>,
    pub new_rdn: Vec<u8>,
    pub delete_old_rdn: bool,
    pub new_superior: Option<Vec<u8>>,
    /// The entryCSN of the entry before this operation, if the setting `logold` recorded it.
    pub previous: Option<String>,
    /// minCSN and createTimestamp, which only the suffix entry of the log has.
    pub min_csns: Vec<String>,
    pub created: String,
}

impl Operation {
    /// Reads a log entry. Without `changes`, reqMod is read only for `only_context` and `new_uuid`.
    pub fn read(record: &Record<'_>, changes: bool) -> Result<Self> {
        let mut read = Self::default();
        let (mut is_new, text) = (false, |value: &[u8]| String::from_utf8_lossy(value).into_owned());
        for field in record.entry()?.fields {
            let field = field?;
            let name = field.base().to_ascii_lowercase();
            let value = field.value()?;
            if name == b"reqmod" && *value != *b":" {
                let is_context = value.get(..11).is_some_and(|text| text.eq_ignore_ascii_case(b"contextCSN:"));
                read.only_context = Some(is_context && read.only_context != Some(false));
            }
            if name == b"reqmod" && !changes {
                if let Some(uuid) = value.strip_prefix(b"entryUUID:= ") {
                    read.new_uuid = uuid_of(uuid);
                }
                continue;
            }
            match name.as_slice() {
                b"entrycsn" => read.csn = text(&value),
                b"entryuuid" => read.own_uuid = uuid_of(&value),
                b"reqstart" => read.start = text(&value),
                b"reqend" => read.end = text(&value),
                b"reqsession" => read.session = value.into_owned(),
                b"reqauthzid" => read.author = text(&value),
                b"reqresult" => read.failed = *value != *b"0",
                b"reqtype" => {
                    read.kind = match &*value {
                        b"add" => Some(Type::Add),
                        b"modify" => Some(Type::Modify),
                        b"modrdn" => Some(Type::Rename),
                        b"delete" => Some(Type::Delete),
                        _ => None,
                    }
                }
                b"reqdn" => read.dn = value.into_owned(),
                b"reqentryuuid" => read.uuid = uuid_of(&value),
                b"reqmod" => read.change(&value, &mut is_new)?,
                b"reqold" => {
                    if let Some(csn) = value.strip_prefix(b"entryCSN: ") {
                        read.previous = Some(text(csn));
                    }
                }
                b"reqnewrdn" => read.new_rdn = value.into_owned(),
                b"reqdeleteoldrdn" => read.delete_old_rdn = *value == *b"TRUE",
                b"reqnewsuperior" => read.new_superior = Some(value.into_owned()),
                b"reqcontrols" => {
                    let has = |oid: &[u8]| value.windows(oid.len()).any(|part| part == oid);
                    read.transaction |= has(TRANSACTION);
                    read.permissive |= has(PERMISSIVE);
                }
                b"mincsn" => read.min_csns.push(text(&value)),
                b"createtimestamp" => read.created = text(&value),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Whether an earlier change of the entry has a later CSN of the same server. The server's clock was then set back.
    pub fn is_set_back(&self) -> bool {
        let Some(previous) = self.previous.as_ref().map(String::as_bytes) else { return false };
        pack(previous) > pack(self.csn.as_bytes()) && sid(previous) == sid(self.csn.as_bytes())
    }

    fn unreadable(&self) -> Error {
        Error::new(Code::Unproven, format!("reqMod of the change {} cannot be read", self.start))
    }

    /// Reads a value of reqMod: `DESCRIPTION:OPERATOR[ VALUE]`. Adjacent values of one attribute and operator form one
    /// change, unless a value without an operator separates them.
    fn change(&mut self, text: &[u8], is_new: &mut bool) -> Result<()> {
        let colon = text.iter().position(|byte| *byte == b':').ok_or_else(|| self.unreadable())?;
        let (description, rest) = (&text[..colon], &text[colon + 1..]);
        let Some((operator, rest)) = rest.split_first() else {
            *is_new = true;
            return Ok(());
        };
        let kind = match operator {
            b'+' => Kind::Add,
            b'-' => Kind::Delete,
            b'=' => Kind::Replace,
            b'#' => Kind::Increment,
            b'?' => Kind::IfAbsent,
            _ => return Err(self.unreadable()),
        };
        let value = rest.strip_prefix(b" ").map(Box::from);
        let last = self.changes.last_mut().filter(|last| {
            !*is_new && kind != Kind::Increment && last.kind == kind && *last.description == *description
        });
        *is_new = false;
        if let Some(last) = last {
            last.values.extend(value);
        } else {
            let (description, values) = (description.into(), value.into_iter().collect());
            self.changes.push(Change { description, kind, values });
        }
        Ok(())
    }
}

fn uuid_of(text: &[u8]) -> Option<u128> {
    values::uuid::octets(text).map(u128::from_be_bytes)
}
