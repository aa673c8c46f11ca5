//! `PutItem`, `UpdateItem` and `DeleteItem`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::error::Refusal;
use super::expression::{Condition, Placeholders, Update};
use super::parsed::{Expression, cached};
use super::units::Units;
use super::value::{Item, Value, item_size};
use super::{Answer, Tables, done, id_of, read};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Write {
    table_name: String,
    #[serde(default, alias = "Item")]
    key: Item,
    condition_expression: Option<String>,
    update_expression: Option<String>,
    #[serde(default)]
    expression_attribute_names: HashMap<String, String>,
    #[serde(default)]
    expression_attribute_values: HashMap<String, Value>,
    return_values: Option<String>,
    return_values_on_condition_check_failure: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Item>,
}

impl Tables {
    pub(super) fn write(&mut self, operation: &str, body: &[u8]) -> Result<Answer, Refusal> {
        let write: Write = read(body)?;
        let condition = write.condition_expression.as_deref();
        let condition = condition.map(|text| cached(&mut self.conditions, text, Condition::read));
        let condition = condition.transpose()?;
        let update = write.update_expression.as_deref();
        let update = update.map(|text| cached(&mut self.updates, text, Update::read));
        let update = update.transpose()?;
        let placeholders = Placeholders {
            names: &write.expression_attribute_names,
            values: &write.expression_attribute_values,
            parameters: &[],
        };
        let returns_new = match write.return_values.as_deref() {
            None | Some("NONE") => false,
            Some("UPDATED_NEW") => true,
            Some(other) => return Err(Refusal::validation(format!("ReturnValues {other}"))),
        };

        let id = id_of(write.key.get("id"))?.to_owned();
        let table = self.table(&write.table_name);
        let found = table.get(&id);
        if let Some(condition) = condition
            && !condition.holds(found, placeholders)
        {
            let shown = write.return_values_on_condition_check_failure.as_deref();
            return Err(Refusal::condition(found, shown));
        }
        let before = found.map_or(0, item_size);
        let mut attributes = None;
        let after = if operation == "DeleteItem" {
            table.remove(&id);
            0
        } else {
            let item = match update {
                None => write.key.clone(),
                Some(update) => {
                    let mut item = found.unwrap_or(&write.key).clone();
                    update.apply(&mut item, placeholders)?;
                    if returns_new {
                        attributes = Some(update.set_in(&item, placeholders));
                    }
                    item
                }
            };
            let size = item_size(&item);
            table.insert(id, item);
            size
        };
        done(&Written { attributes }, Units::of_write(before.max(after)))
    }
}
