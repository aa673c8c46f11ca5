//! A client of one of AWS's services.

use std::sync::Arc;

use aws_config::SdkConfig;
use tokio::sync::OnceCell;

/// A client that its first use creates, unless the code has set it. Clones share it.
pub(crate) struct LazyClient<C>(Arc<OnceCell<C>>);

impl<C> Clone for LazyClient<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Default for LazyClient<C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<C> From<C> for LazyClient<C> {
    fn from(client: C) -> Self {
        Self(Arc::new(OnceCell::new_with(Some(client))))
    }
}

impl<C> LazyClient<C> {
    pub(crate) async fn get(&self, create: fn(&SdkConfig) -> C) -> &C {
        let create = async || create(super::config().await);
        self.0.get_or_init(create).await
    }
}
