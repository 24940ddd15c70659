//! What holds after every entry, whatever was asked, in whatever order, by whoever came and went.

mod invariants;
mod play;
mod units;

use play::{Act, Stage};
use proptest::prelude::*;

fn acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(Act::any(), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// coordination 114, 115, 142 and 148; and an owner's session lives.
    #[test]
    fn tokens_queues_and_numbers_are_kept(acts in acts()) {
        let mut stage = Stage::open();

        for act in acts {
            stage.act(&act);
            invariants::check(&mut stage);
        }
    }

    /// A follower that hears the same entries, and one made from a snapshot that was cut while entries went on, are equal.
    #[test]
    fn replicas_agree(before in acts(), during in acts()) {
        let mut stage = Stage::open();
        before.iter().for_each(|act| stage.act(act));
        let at_cut = stage.coord.digest();
        let totals = stage.coord.totals();

        let restored = stage.cut_while(&during);

        assert_eq!(restored.digest(), at_cut, "a snapshot is the state at its beginning");
        assert_eq!(restored.totals(), totals);
        assert_eq!(stage.coord.digest(), stage.follower.digest());
    }

    /// coordination 188: a replica that starts again goes on as if it had not.
    #[test]
    fn a_restart_changes_nothing(before in acts(), after in acts()) {
        let mut stage = Stage::open();
        before.iter().for_each(|act| stage.act(act));

        stage.follower = stage.cut_while(&[]);

        after.iter().for_each(|act| stage.act(act));
        assert_eq!(stage.coord.digest(), stage.follower.digest());
    }
}
