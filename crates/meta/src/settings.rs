//! Settings that are changed while the cluster runs, and count from then on, also for what is under way. The map holds them as text;
//! here they are read, and checked before they are taken.

use std::collections::BTreeMap;

use shardine_model::{ErrorCode, Refusal};

/// Whether anything moves for the sake of balance: `on` or `off`.
pub const BALANCER: &str = "balancer";
/// When it may begin to, by the clock of UTC: `HH:MM-HH:MM`.
pub const BALANCER_WINDOW: &str = "balancer.window";
/// What a node sends of copies in a second, in MiB.
pub const BALANCER_SPEED: &str = "balancer.speed";
/// After how many seconds a silent node is taken for gone, and what it holds is made again elsewhere.
pub const NODE_GONE_AFTER: &str = "node.gone_after";

/// For how many seconds leads are to be unequal before any is given away: a restart makes them so for a while.
pub const BALANCER_LEADS_AFTER: &str = "balancer.leads_after";

const LEADS_AFTER_SECONDS_MAX: u64 = 24 * 3_600;
const SPEED_MIB_MAX: u64 = 10_000;
const GONE_AFTER_SECONDS_MAX: u64 = 30 * 24 * 3_600;
const DAY_MINUTES: u32 = 24 * 60;

/// The settings in use: what the map says, or what stands for what it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub balances: bool,
    pub window: Option<Window>,
    pub speed_bytes: u64,
    pub gone_after_ms: u64,
    pub leads_after_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        // Five minutes are longer than a restart of a machine, and shorter than a second failure takes to come.
        Self { balances: true, window: None, speed_bytes: 64 << 20, gone_after_ms: 300_000, leads_after_ms: 60_000 }
    }
}

/// From one minute of the day to another, maybe over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: u32,
    to: u32,
}

impl Settings {
    /// What cannot be read counts as not said: a newer version may have written it.
    #[must_use]
    pub fn of(told: &BTreeMap<String, String>) -> Self {
        let mut settings = Self::default();
        for (name, value) in told {
            let mut next = settings;
            if next.take(name, value).is_some() {
                settings = next;
            }
        }
        settings
    }

    /// Refuses a value that nobody could read, and a name that means nothing.
    pub fn check(name: &str, value: Option<&str>) -> Result<(), Refusal> {
        let forms = [
            (BALANCER, "on or off".to_owned()),
            (BALANCER_WINDOW, "HH:MM-HH:MM in UTC".to_owned()),
            (BALANCER_SPEED, format!("1 to {SPEED_MIB_MAX} MiB a second")),
            (BALANCER_LEADS_AFTER, format!("1 to {LEADS_AFTER_SECONDS_MAX} seconds")),
            (NODE_GONE_AFTER, format!("1 to {GONE_AFTER_SECONDS_MAX} seconds")),
        ];
        let Some((_, form)) = forms.iter().find(|(known, _)| *known == name) else {
            let known = forms.map(|(name, _)| name).join(", ");
            return Err(Refusal::new(ErrorCode::BadRequest, format!("there is no setting {name}: there are {known}")));
        };
        match value {
            Some(value) if Self::default().take(name, value).is_none() => {
                Err(Refusal::new(ErrorCode::BadRequest, format!("{name} cannot be {value}: it is {form}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Option<()> {
        let within = |max: u64| value.parse().ok().filter(|number| (1..=max).contains(number));
        match name {
            BALANCER => self.balances = [("on", true), ("off", false)].into_iter().find(|(word, _)| *word == value)?.1,
            BALANCER_WINDOW => self.window = Some(Window::parse(value)?),
            BALANCER_SPEED => self.speed_bytes = within(SPEED_MIB_MAX)? << 20,
            BALANCER_LEADS_AFTER => self.leads_after_ms = within(LEADS_AFTER_SECONDS_MAX)? * 1_000,
            NODE_GONE_AFTER => self.gone_after_ms = within(GONE_AFTER_SECONDS_MAX)? * 1_000,
            _ => return None,
        }
        Some(())
    }

    /// Whether something may be moved for the sake of balance at this time of day.
    #[must_use]
    pub fn may_balance(&self, unix_ms: u64) -> bool {
        let minute = u32::try_from(unix_ms / 60_000 % u64::from(DAY_MINUTES)).unwrap_or(0);
        self.balances && self.window.is_none_or(|window| window.contains(minute))
    }
}

impl Window {
    fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        Some(Self { from: minute(from)?, to: minute(to)? }).filter(|window| window.from != window.to)
    }

    fn contains(self, minute: u32) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

fn minute(text: &str) -> Option<u32> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str, below: u32| text.parse::<u32>().ok().filter(|number| text.len() == 2 && *number < below);
    Some(number(hours, 24)? * 60 + number(minutes, 60)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Settings {
        Settings::of(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn a_window_may_reach_over_midnight() {
        let at = |settings: Settings, hours: u64, minutes: u64| settings.may_balance((hours * 60 + minutes) * 60_000);

        let day = with(BALANCER_WINDOW, "09:30-17:00");
        assert_eq!([at(day, 9, 29), at(day, 9, 30), at(day, 16, 59), at(day, 17, 0)], [false, true, true, false]);
        let night = with(BALANCER_WINDOW, "22:00-04:00");
        assert_eq!(
            [at(night, 21, 59), at(night, 23, 0), at(night, 3, 59), at(night, 4, 0)],
            [false, true, true, false]
        );
        assert!(at(Settings::default(), 12, 0));
        assert!(!at(with(BALANCER, "off"), 12, 0));
    }

    #[test]
    fn what_cannot_be_read_counts_as_not_said() {
        for (name, value) in
            [(BALANCER, "maybe"), (BALANCER_WINDOW, "9-17"), (BALANCER_WINDOW, "10:00-10:00"), (BALANCER_SPEED, "0")]
        {
            assert_eq!(with(name, value), Settings::default(), "{name} {value}");
            let said = Settings::check(name, Some(value)).unwrap_err().message;
            assert!(said.contains(&format!("{name} cannot be {value}")), "{said}");
        }
        assert_eq!(with(NODE_GONE_AFTER, "2").gone_after_ms, 2_000);
        assert_eq!(with(BALANCER_SPEED, "16").speed_bytes, 16 << 20);
        assert_eq!(Settings::check(BALANCER_SPEED, None), Ok(()));
        let said = Settings::check("balance", Some("on")).unwrap_err().message;
        assert!(said.contains("there is no setting balance: there are balancer, "), "{said}");
    }
}
