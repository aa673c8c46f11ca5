//! What consumes which queue of a deployment.

use crate::field::Field;
use crate::model::{Bus, Deployment, Function, Key, Mapping, Queue, Statement, Table, Target};

/// An enabled event source mapping with its function and its queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Consumer<'a> {
    pub(crate) mapping: &'a Mapping,
    pub(crate) function: Option<&'a Function>,
    pub(crate) queue: Option<&'a Queue>,
}

impl Deployment {
    /// The enabled mappings, each with its function and its queue.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = Consumer<'_>> {
        self.mappings
            .iter()
            .filter(|mapping| mapping.is_enabled.known() != Some(&false))
            .map(|mapping| Consumer {
                mapping,
                function: self.function(&mapping.function),
                queue: self.queue(&mapping.queue),
            })
    }

    /// The queues that functions consume, each with all of its consumers.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&Queue, Vec<Consumer<'_>>)> {
        self.queues.iter().filter_map(|queue| {
            let consumers: Vec<_> = self
                .consumers()
                .filter(|consumer| consumer.queue.is_some_and(|of| of.site.id == queue.site.id))
                .collect();
            (!consumers.is_empty()).then_some((queue, consumers))
        })
    }

    /// The queues that functions consume.
    pub(crate) fn consumed(&self) -> impl Iterator<Item = &Queue> {
        self.sources().map(|(queue, _)| queue)
    }

    /// Pairs of a consumed queue and its dead-letter queue in this deployment.
    pub(crate) fn redrives(&self) -> impl Iterator<Item = (&Queue, &Queue)> {
        let queues = self.consumed();
        queues.filter_map(|queue| Some((queue, self.queue(&queue.dead_letter_queue)?)))
    }

    /// The dead-letter queues, each once, even if several queues share it.
    pub(crate) fn dead_letter_queues(&self) -> impl Iterator<Item = &Queue> {
        let is_of = |queue: &&Queue| self.redrives().any(|(_, of)| of.site == queue.site);
        self.queues.iter().filter(is_of)
    }

    /// The queues that functions consume, and their dead-letter queues in this deployment.
    pub(crate) fn consumed_and_dead_letters(&self) -> impl Iterator<Item = &Queue> {
        let dead_letters = self.redrives().map(|(_, dead_letters)| dead_letters);
        self.consumed().chain(dead_letters)
    }

    /// The functions that consume a queue, each once.
    pub(crate) fn consuming_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|function| {
            self.consumers()
                .any(|consumer| consumer.function.is_some_and(|of| of.site == function.site))
        })
    }

    /// The environment variables of the consuming functions that use this library.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&Function, &String, &Field<String>)> {
        let functions = self.consuming_functions();
        let functions = functions.filter(|function| function.uses_sqs_once());
        functions.flat_map(|it| {
            it.environment
                .iter()
                .map(move |(name, field)| (it, name, field))
        })
    }

    /// The statements of the consuming functions' policies.
    pub(crate) fn statements(&self) -> impl Iterator<Item = (&Function, &Statement)> {
        let functions = self.consuming_functions();
        functions.flat_map(|it| it.permissions.statements.iter().map(move |one| (it, one)))
    }

    /// The tables that hold the consumers' keys.
    pub(crate) fn key_tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| {
            let mut tables = self
                .functions
                .iter()
                .map(|it| it.reference("SQS_ONCE_TABLE"));
            tables.any(|of| of.known().is_some_and(|of| of.is(&table.site.id)))
        })
    }

    pub(crate) fn function(&self, target: &Field<Target>) -> Option<&Function> {
        let target = target.known()?;
        self.functions.iter().find(|it| target.is(&it.site.id))
    }

    pub(crate) fn table(&self, target: &Field<Target>) -> Option<&Table> {
        let target = target.known()?;
        self.tables.iter().find(|it| target.is(&it.site.id))
    }

    pub(crate) fn key(&self, target: &Field<Target>) -> Option<&Key> {
        let target = target.known()?;
        self.keys.iter().find(|it| target.is(&it.site.id))
    }

    /// The dead-letter queue that a consumer's function sends to. A variable that names the source is wrong.
    pub(crate) fn sent_to(&self, consumer: &Consumer<'_>) -> Option<&Queue> {
        let queue = self.queue(consumer.function?.reference("SQS_ONCE_DLQ_URL"))?;
        let is_source = consumer.queue.is_some_and(|it| it.site == queue.site);
        (!is_source).then_some(queue)
    }

    pub(crate) fn bus(&self, target: &Field<Target>) -> Option<&Bus> {
        let target = target.known()?;
        self.buses.iter().find(|it| target.is(&it.site.id))
    }

    /// The target queue, if it is in the deployment.
    pub fn queue(&self, target: &Field<Target>) -> Option<&Queue> {
        let target = target.known()?;
        self.queues.iter().find(|it| target.is(&it.site.id))
    }
}
