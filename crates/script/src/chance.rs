//! Numbers that look like chance: the same in every run, so that a script that runs again does the same.

/// The generator of `lrand48`, begun anew for every script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance(u64);

const SPAN: u64 = 1 << 48;
/// Numbers that are drawn are below this.
const MOST: u64 = i32::MAX as u64;

impl Chance {
    /// Where Redis begins when it starts.
    pub const FIRST: Self = Self(0x1234_abcd_330e);

    pub fn new(seed: i64) -> Self {
        Self(((seed as u64 & 0xffff_ffff) << 16 | 0x330e) % SPAN)
    }

    /// From 0 on and below 1.
    pub fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) % SPAN;
        ((self.0 >> 17) % MOST) as f64 / MOST as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What redis-server 7.0.15 draws after its start, and after `math.randomseed(5)`.
    #[test]
    fn draws_are_those_of_redis() {
        let mut chance = Chance::FIRST;
        let mut number = || (chance.draw() * 1_000.0).floor() + 1.0;

        assert_eq!([number(), number(), number()], [397.0, 841.0, 354.0]);
        assert_eq!((Chance::new(5).draw() * 1_000.0).floor() + 1.0, 525.0);
    }
}
