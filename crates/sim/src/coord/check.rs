//! The promises about coordination, a file each. What clients are told is looked at when a node says it, with the view from
//! above; what they hold on to is theirs from then on, whether or not they have heard it.

pub mod every_request_is_answered_once;
pub mod first_come_first_served;
pub mod granted_stays_granted;
pub mod no_change_is_missed;
pub mod order_ids_only_grow;
pub mod reads_are_fresh;
pub mod sessions_live_their_time;
pub mod tokens_stay_within_the_limit;
