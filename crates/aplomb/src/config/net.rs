//! `[[net]]` tables of the settings: interfaces whose packets are ordered.
//!
//! ```toml
//! [[net]]
//! interface = "eth0"
//! rate = "38Mbit"
//! overhead = 26
//! leaf = "fair"
//! ```

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::protocol::{NetLeaf, NetWanted, MAX_OVERHEAD};

/// The most tables that a file may have: as many interfaces may be ordered at a time.
const MAX_TABLES: usize = 16;

/// The table as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    interface: Spanned<String>,
    rate: Option<Spanned<String>>,
    overhead: Option<Spanned<i64>>,
    leaf: Option<Spanned<String>>,
}

/// Check the tables. `at` makes an error of a field, its place in the text and a message.
pub(super) fn read<E>(
    files: Vec<Spanned<File>>,
    at: impl Fn(&str, Range<usize>, String) -> E,
) -> Result<Vec<NetWanted>, E> {
    let mut wanted: Vec<NetWanted> = Vec::new();
    for file in files {
        let span = file.span();
        let f = file.into_inner();
        if wanted.len() >= MAX_TABLES {
            return Err(at("net", span, format!("more than {MAX_TABLES} tables")));
        }
        let interface = f.interface.get_ref().clone();
        if wanted.iter().any(|w| w.interface == interface) {
            let message = format!("{} is there already", aplomb_spec::shorten(&interface));
            return Err(at("net.interface", f.interface.span(), message));
        }
        let rate = f.rate.map(|rate| {
            aplomb_spec::parse_rate(rate.get_ref()).map_err(|m| at("net.rate", rate.span(), m))
        });
        let overhead = f.overhead.map(|overhead| {
            let bytes = u32::try_from(*overhead.get_ref()).ok();
            let wrong = || format!("it is not between 0 and {MAX_OVERHEAD} bytes");
            bytes
                .filter(|b| *b <= MAX_OVERHEAD)
                .ok_or_else(|| at("net.overhead", overhead.span(), wrong()))
        });
        let leaf = f.leaf.map(|leaf| {
            let found = NetLeaf::ALL.iter().find(|(_, name)| name == leaf.get_ref());
            let names = NetLeaf::ALL.map(|(_, name)| name).join(", ");
            let wrong = || {
                format!(
                    "\"{}\" is none of {names}",
                    aplomb_spec::shorten(leaf.get_ref())
                )
            };
            found
                .map(|(leaf, _)| *leaf)
                .ok_or_else(|| at("net.leaf", leaf.span(), wrong()))
        });
        wanted.push(NetWanted {
            interface,
            rate: rate.transpose()?,
            overhead: overhead.transpose()?.unwrap_or(0),
            leaf: leaf.transpose()?.unwrap_or_default(),
        });
    }
    Ok(wanted)
}
