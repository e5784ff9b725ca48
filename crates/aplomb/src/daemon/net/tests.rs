use aplomb_domain::Marks;

use super::settings::{changes, NetSetting};
use super::*;

fn setting(weight: u32, max: Option<u64>) -> NetSetting {
    NetSetting { weight, max }
}

#[test]
fn attributes_that_say_the_usual_set_nothing() {
    let of = |net_weight, net_max| {
        NetSetting::of(&Marks {
            net_weight,
            net_max,
            ..Marks::default()
        })
    };
    assert_eq!(of(None, None), None);
    assert_eq!(of(Some(100), None), None);
    assert_eq!(of(Some(300), None), Some(setting(300, None)));
    assert_eq!(of(None, Some(8000)), Some(setting(100, Some(8000))));
}

#[test]
fn only_what_changed_is_told() {
    let before = BTreeMap::from([
        (1, setting(300, None)),
        (2, setting(50, Some(8000))),
        (3, setting(7, None)),
    ]);
    let now = BTreeMap::from([
        (1, setting(300, None)),
        (2, setting(50, Some(9000))),
        (4, setting(200, None)),
    ]);
    let told = BTreeMap::from_iter(changes(&before, &now));
    let expected = BTreeMap::from([
        (2, setting(50, Some(9000))),
        (3, NetSetting::default()),
        (4, setting(200, None)),
    ]);
    assert_eq!(told, expected);
    assert_eq!(changes(&now, &now), []);
}

#[test]
fn a_link_is_checked() {
    let rate = |rate| link_of(Some(rate), 0).map(|link| link.rate);
    assert_eq!(rate(40_000_000).unwrap(), 5_000_000, "bytes a second");
    assert_eq!(link_of(None, 0).unwrap().rate, 0, "no rate");
    for wrong in [0, 1, 7_999, u64::MAX] {
        let refusal = rate(wrong).unwrap_err();
        assert!(refusal.message.contains("8kbit"), "{}", refusal.message);
    }
    assert_eq!(link_of(None, MAX_OVERHEAD).unwrap().overhead, MAX_OVERHEAD);
    let refusal = link_of(None, MAX_OVERHEAD + 1).unwrap_err();
    assert!(refusal.message.contains("overhead"), "{}", refusal.message);
}

#[test]
fn a_leaf_has_its_order() {
    let order = |leaf| {
        let order = order_of(leaf);
        (order.by_flow, order.drop_old)
    };
    assert_eq!(order(NetLeaf::Fifo), (false, false));
    assert_eq!(order(NetLeaf::Codel), (false, true));
    assert_eq!(order(NetLeaf::Fair), (true, true));
}
