//! Shared between the formats.
