//! A web page on loopback that shows what happened to messages, and a file that shows the same.

mod act;
mod apply;
mod apply_queue;
mod html;
mod kept;
mod limits;
mod message;
mod server;
mod story;
mod token;
mod view;

pub use limits::Limits;
pub use server::{Page, PageError};
pub use story::Story;
