use super::*;
use crate::types::Host;
use AddressClass as C;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn class(text: &str) -> Option<AddressClass> {
    AddressClass::of(ip(text))
}

/// The first and the last address of a range are in it, and its neighbours are not (or are in another one).
macro_rules! ranges {
    ($($name:ident: $class:expr, $first:expr, $last:expr, before $before:expr => $c1:expr, after $after:expr => $c2:expr;)*) => { $(
        #[test]
        fn $name() {
            assert_eq!(class($first), Some($class), "first");
            assert_eq!(class($last), Some($class), "last");
            assert_eq!(class($before), $c1, "before");
            assert_eq!(class($after), $c2, "after");
        }
    )* };
}

ranges! {
    this_network: C::Unspecified, "0.0.0.0", "0.255.255.255", before "255.255.255.255" => Some(C::Reserved), after "1.0.0.0" => None;
    ten: C::Private, "10.0.0.0", "10.255.255.255", before "9.255.255.255" => None, after "11.0.0.0" => None;
    carrier_nat: C::Shared, "100.64.0.0", "100.127.255.255", before "100.63.255.255" => None, after "100.128.0.0" => None;
    loopback: C::Loopback, "127.0.0.0", "127.255.255.255", before "126.255.255.255" => None, after "128.0.0.0" => None;
    link_local: C::LinkLocal, "169.254.0.0", "169.254.255.255", before "169.253.255.255" => None, after "169.255.0.0" => None;
    twelve_bits: C::Private, "172.16.0.0", "172.31.255.255", before "172.15.255.255" => None, after "172.32.0.0" => None;
    protocol: C::Protocol, "192.0.0.0", "192.0.0.255", before "191.255.255.255" => None, after "192.0.1.0" => None;
    documentation_1: C::Documentation, "192.0.2.0", "192.0.2.255", before "192.0.1.255" => None, after "192.0.3.0" => None;
    sixteen_bits: C::Private, "192.168.0.0", "192.168.255.255", before "192.167.255.255" => None, after "192.169.0.0" => None;
    benchmarking: C::Benchmarking, "198.18.0.0", "198.19.255.255", before "198.17.255.255" => None, after "198.20.0.0" => None;
    documentation_2: C::Documentation, "198.51.100.0", "198.51.100.255", before "198.51.99.255" => None, after "198.51.101.0" => None;
    documentation_3: C::Documentation, "203.0.113.0", "203.0.113.255", before "203.0.112.255" => None, after "203.0.114.0" => None;
    multicast: C::Multicast, "224.0.0.0", "239.255.255.255", before "223.255.255.255" => None, after "240.0.0.0" => Some(C::Reserved);
    reserved: C::Reserved, "240.0.0.0", "255.255.255.255", before "239.255.255.255" => Some(C::Multicast), after "0.0.0.0" => Some(C::Unspecified);
    local_translation: C::LocalTranslation, "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
        before "64:ff9b::ffff:ffff:ffff:ffff" => None, after "64:ff9b:2::" => None;
    discard: C::Discard, "100::", "100::ffff:ffff:ffff:ffff", before "ff:ffff::" => None, after "100:0:0:1::" => None;
    protocol_v6: C::Protocol, "2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
        before "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => None, after "2001:200::" => None;
    documentation_v6: C::Documentation, "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
        before "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff" => None, after "2001:db9::" => None;
    documentation_v6_2: C::Documentation, "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
        before "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => None, after "3fff:1000::" => None;
    segment_routing: C::SegmentRouting, "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        before "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => None, after "5f01::" => None;
    unique_local: C::Private, "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        before "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => None, after "fe00::" => None;
    link_local_v6: C::LinkLocal, "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        before "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => None, after "fec0::" => Some(C::SiteLocal);
    site_local: C::SiteLocal, "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        before "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => Some(C::LinkLocal), after "ff00::" => Some(C::Multicast);
    multicast_v6: C::Multicast, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        before "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => Some(C::SiteLocal), after "2606:4700::1" => None;
}

#[test]
fn single_ipv6_addresses() {
    assert_eq!(class("::"), Some(C::Unspecified));
    assert_eq!(class("::1"), Some(C::Loopback));
}

#[test]
fn the_public_parts_of_the_protocol_range() {
    for (first, last, before, after) in [
        ("2001:1::1", "2001:1::3", "2001:1::", "2001:1::4"),
        ("2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff", "2001:2:ffff::", "2001:4::"),
        ("2001:4:112::", "2001:4:112:ffff:ffff:ffff:ffff:ffff", "2001:4:111::", "2001:4:113::"),
        ("2001:20::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff", "2001:1f::", "2001:40::"),
    ] {
        assert_eq!((class(first), class(last)), (None, None), "{first}");
        assert_eq!((class(before), class(after)), (Some(C::Protocol), Some(C::Protocol)), "{first}");
    }
    assert_eq!(class("2001:2::1"), Some(C::Protocol), "benchmarking, RFC 5180");
    assert_eq!(class("2001:10::1"), Some(C::Protocol), "ORCHID, RFC 4843");
}

#[test]
fn metadata_addresses() {
    for text in [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::a83f:8110",
    ] {
        assert_eq!(class(text), Some(C::Metadata), "{text}");
    }
    assert_eq!(class("168.63.129.17"), None);
}

macro_rules! embedded {
    ($($name:ident: $private:expr, $public:expr;)*) => { $(
        #[test]
        fn $name() {
            assert_eq!(class($private), Some(C::Private), "{}", $private);
            assert_eq!(class($public), None, "{}", $public);
        }
    )* };
}

embedded! {
    mapped: "::ffff:10.0.0.1", "::ffff:8.8.8.8";
    compatible: "::10.0.0.1", "::8.8.8.8";
    translated: "::ffff:0:10.0.0.1", "::ffff:0:8.8.8.8";
    nat64: "64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8";
    six_to_four: "2002:a00:1::1", "2002:808:808::1";
    teredo_client: "2001:0:808:808:0:0:f5ff:fffe", "2001:0:808:808:0:0:f7f7:f7f7";
    teredo_server: "2001:0:a00:1:0:0:f7f7:f7f7", "2001:0:808:808:8000:63bf:f7f7:f7f7";
    isatap: "2606:4700::5efe:10.0.0.1", "2606:4700::5efe:8.8.8.8";
    isatap_universal: "2606:4700::200:5efe:10.0.0.1", "2606:4700::200:5efe:8.8.8.8";
    isatap_in_six_to_four: "2002:808:808::5efe:10.0.0.1", "2002:808:808::5efe:8.8.8.8";
}

#[test]
fn an_embedded_public_address_does_not_open_a_blocked_prefix() {
    assert_eq!(class("fe80::5efe:8.8.8.8"), Some(C::LinkLocal));
    assert_eq!(class("64:ff9b:1::8.8.8.8"), Some(C::LocalTranslation));
}

fn check(rules: &AddressRules, answers: &[&str], own: &[&str]) -> Result<usize, AddressClass> {
    let all = |texts: &[&str]| texts.iter().map(|text| ip(text)).collect::<Vec<_>>();
    let authority = Authority::new(Host::parse("a.test").unwrap(), 443);
    match rules.check(&authority, &all(answers), &all(own)) {
        Ok(checked) => Ok(checked.as_slice().len()),
        Err(Denial::AddressBlocked { class, .. }) => Err(class),
        Err(other) => panic!("{other}"),
    }
}

fn carved(cidrs: &[&str]) -> AddressRules {
    AddressRules::new(&EgressPolicy::custom(cidrs).unwrap(), false)
}

#[test]
fn a_mixed_answer_is_refused_whole() {
    let rules = AddressRules::default();
    assert_eq!(check(&rules, &["8.8.8.8", "2606:4700::1"], &[]), Ok(2));
    assert_eq!(check(&rules, &["8.8.8.8", "10.0.0.1"], &[]), Err(C::Private));
    assert_eq!(check(&rules, &["::1", "8.8.8.8"], &[]), Err(C::Loopback));
}

#[test]
fn no_answer_is_no_address() {
    let authority = Authority::new(Host::parse("a.test").unwrap(), 443);
    let denial = AddressRules::default().check(&authority, &[], &[]);
    assert_eq!(denial, Err(Denial::NoAddress { authority }));
}

#[test]
fn a_checked_address_is_the_plain_one() {
    let authority = Authority::new(Host::parse("a.test").unwrap(), 443);
    let checked = AddressRules::default().check(&authority, &[ip("::ffff:8.8.8.8")], &[]).unwrap();
    assert_eq!(checked.as_slice(), [ip("8.8.8.8")]);
}

#[test]
fn an_entry_inside_one_blocked_range_opens_it() {
    let rules = carved(&["10.1.2.3/32", "192.168.0.0/24", "fd00:1::/32"]);
    assert_eq!(check(&rules, &["10.1.2.3", "192.168.0.9", "fd00:1::9"], &[]), Ok(3));
    for (text, class) in
        [("10.1.2.4", C::Private), ("192.168.1.1", C::Private), ("fd00:2::1", C::Private), ("127.0.0.1", C::Loopback)]
    {
        assert_eq!(check(&rules, &[text], &[]), Err(class), "{text}");
    }
    assert_eq!(check(&carved(&["2001:2::/48"]), &["2001:2::1"], &[]), Ok(1));
    assert_eq!(check(&carved(&["127.0.0.1"]), &["127.0.0.1"], &["127.0.0.1"]), Ok(1));
}

#[test]
fn a_wider_entry_opens_public_addresses_only() {
    for wide in ["0.0.0.0/0", "0.0.0.0/1", "8.0.0.0/6", "224.0.0.0/3", "::/0", "fc00::/6"] {
        let rules = carved(&[wide, "::/0"]);
        for text in ["0.0.0.0", "10.0.0.1", "127.0.0.1", "240.0.0.1", "::", "::1", "fd00::1", "64:ff9b::10.0.0.1"] {
            assert!(check(&rules, &[text], &[]).is_err(), "{wide} {text}");
        }
        let net = crate::policy::Cidr::parse(wide).unwrap().net();
        assert!(left_closed(&net).is_some_and(|what| what.contains("public addresses only")), "{wide}");
    }
    for narrow in ["10.0.0.0/8", "192.168.1.0/24", "8.8.8.0/24", "2606:4700::/32", "::1/128"] {
        assert_eq!(left_closed(&crate::policy::Cidr::parse(narrow).unwrap().net()), None, "{narrow}");
    }
}

#[test]
fn an_embedded_address_opens_with_the_address_it_is_judged_as_or_by_itself() {
    assert_eq!(check(&carved(&["10.0.0.0/8"]), &["64:ff9b::10.0.0.1", "::ffff:10.0.0.1"], &[]), Ok(2));
    assert_eq!(check(&carved(&["64:ff9b::a00:1"]), &["64:ff9b::10.0.0.1"], &[]), Ok(1));
    assert_eq!(check(&carved(&["64:ff9b::/96"]), &["64:ff9b::10.0.0.1"], &[]), Err(C::Private));
    assert_eq!(check(&carved(&["::ffff:10.0.0.0/104"]), &["10.0.0.1"], &[]), Ok(1));
}

#[test]
fn metadata_opens_by_its_own_address_alone() {
    let open = AddressRules::new(&EgressPolicy::allow_all(), true);
    for (text, wider) in [
        ("169.254.169.254", "169.254.169.254/31"),
        ("168.63.129.16", "168.63.129.0/24"),
        ("fd00:ec2::254", "fd00:ec2::/64"),
    ] {
        assert_eq!(check(&open, &[text], &[]), Err(C::Metadata), "{text}");
        assert_eq!(check(&carved(&[wider]), &[text], &[]), Err(C::Metadata), "{text}");
        assert_eq!(check(&carved(&[text]), &[text], &[]), Ok(1), "{text}");
        let net = crate::policy::Cidr::parse(wider).unwrap().net();
        assert!(left_closed(&net).is_some_and(|what| what.contains("metadata")), "{wider}");
    }
}

#[test]
fn own_addresses_are_blocked_even_when_public() {
    let own = ["93.184.216.34", "10.0.0.5", "127.0.0.1"];
    assert_eq!(check(&AddressRules::default(), &["93.184.216.34"], &own), Err(C::Own));
    assert_eq!(check(&AddressRules::default(), &["64:ff9b::93.184.216.34"], &own), Err(C::Own));
    assert_eq!(check(&carved(&["93.184.216.0/24", "10.0.0.0/8"]), &["93.184.216.34"], &own), Err(C::Own));
    assert_eq!(check(&carved(&["10.0.0.0/8"]), &["10.0.0.4"], &own), Ok(1));
    assert_eq!(check(&carved(&["10.0.0.0/8"]), &["10.0.0.5"], &own), Err(C::Own));
    assert_eq!(check(&carved(&["10.0.0.5", "93.184.216.34"]), &["10.0.0.5", "93.184.216.34"], &own), Ok(2));
    assert_eq!(check(&carved(&["127.0.0.0/8"]), &["127.0.0.1"], &own), Ok(1));
}

#[test]
fn open_private_ips_open_every_class_but_metadata() {
    let open = AddressRules::new(&EgressPolicy::block_all(), true);
    let all = ["0.0.0.0", "10.0.0.1", "127.0.0.1", "240.0.0.1", "::1", "fe80::1", "198.18.0.1", "93.184.216.34"];
    assert_eq!(check(&open, &all, &["93.184.216.34"]), Ok(all.len()));
}
