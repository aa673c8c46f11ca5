//! A web page on loopback that shows what happened to messages, and a file that shows the same.

mod apply;
mod apply_queue;
mod buttons;
mod html;
mod kept;
mod message;
mod samples;
mod server;
mod story;
mod title;
mod view;

pub use server::{Page, PageControls, PageError};
pub use story::{Limits, Story};
