mod block;
mod build;
mod cut;
mod key;
mod merge;
mod page;
mod run;
mod store;
mod write;

pub(crate) use block::BlockAt;
pub(crate) use build::{BuildError, Plan, build};
pub(crate) use key::Key;
pub(crate) use merge::read_contradictions;
pub(crate) use page::{Entry, Follower, Item, State as PageState};
pub(crate) use run::Scratch;
pub(crate) use store::{Bytes, Store, Unusable};
pub(crate) use write::{MAGIC, Table, Target, VERSION};
