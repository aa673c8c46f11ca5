//! A web page on loopback that shows what happened to messages, and a file that shows the same.

mod apply;
mod apply_queue;
mod controls;
mod html;
mod kept;
mod limits;
mod message;
mod samples;
mod server;
mod story;
mod title;
mod view;

pub use controls::PageControls;
pub use limits::Limits;
pub use server::{Page, PageError};
pub use story::Story;
