//! Enums whose variants have names on the command line and in rows.

use std::str::FromStr;
use strum::{EnumMessage, VariantArray};

/// An enum whose derives give what a command-line value needs: its name both ways, all variants, and each variant's
/// documentation, which is its help text.
pub trait Named: Copy + Send + Sync + 'static + Into<&'static str> + FromStr + VariantArray + EnumMessage {}

impl<T: Copy + Send + Sync + 'static + Into<&'static str> + FromStr + VariantArray + EnumMessage> Named for T {}
