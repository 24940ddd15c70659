//! Settings, and the database.

use shardine_model::{ErrorCode, Refusal};

use crate::change::Change;
use crate::limits::{SETTING_NAME_BYTES_MAX, SETTING_VALUE_BYTES_MAX, SETTINGS_MAX, SQL_BYTES_MAX};
use crate::map::Keyspace;
use crate::reply::Reply;
use crate::state::{Meta, refused};

impl Meta {
    pub(super) fn set(&mut self, name: String, value: Option<String>) -> Result<Reply, Refusal> {
        let value_bytes = value.as_ref().map_or(0, String::len);
        if name.is_empty() || name.len() > SETTING_NAME_BYTES_MAX || value_bytes > SETTING_VALUE_BYTES_MAX {
            let message = format!(
                "a setting has a name of at most {SETTING_NAME_BYTES_MAX} bytes and a value of at most {SETTING_VALUE_BYTES_MAX}"
            );
            return refused(ErrorCode::BadRequest, message);
        }
        let known = self.map.settings.get(&name);
        if known == value.as_ref() {
            return Ok(Reply::Done);
        }
        if known.is_none() && self.map.settings.len() >= SETTINGS_MAX {
            return refused(ErrorCode::TooLarge, format!("{SETTINGS_MAX} settings are the limit"));
        }
        self.publish(vec![Change::Setting(name, value)]);
        Ok(Reply::Done)
    }

    pub(super) fn set_sql(&mut self, sql: String) -> Result<Reply, Refusal> {
        if sql.len() > SQL_BYTES_MAX {
            return refused(ErrorCode::TooLarge, format!("an SQL address has {SQL_BYTES_MAX} bytes at most"));
        }
        if sql != self.map.keyspace.sql {
            let keyspace = Keyspace { sql, ..self.map.keyspace.clone() };
            self.publish(vec![Change::Keyspace(keyspace)]);
        }
        Ok(Reply::Done)
    }
}
