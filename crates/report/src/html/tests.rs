//! Pages of made-up runs: the five answers on the first screen, absent views, hostile names, the policy.

use std::sync::Arc;

use nilometer_analysis::Run;
use nilometer_analysis::allocs::model::{Allocs, Amounts, Frame, FrameKind, Site};
use nilometer_analysis::compare::{Side, compare};
use nilometer_analysis::model::{
    Curve, Device, Event, GrowthClass, MadeOf, Mapping, Note, Part, Phase, Point, ProcessSeries, Series,
};

use super::{Page, render};
use crate::tests::example::{killed, leaking};

const HOSTILE: &str =
    "\"'><img src=x onerror=alert(1)></script><script>alert(2)</script><!--\u{202e}\u{1b}[31m]]>";

fn nothing_but(run: &Run) -> Page<'_> {
    Page {
        run,
        leak: None,
        allocs: None,
        sweep: None,
        comparison: None,
        pages: None,
        job: None,
        redacted: false,
    }
}

fn page(run: &Run) -> String {
    render(&nothing_but(run))
}

/// What a reader sees of one element, tags taken out.
fn text_of(page: &str, from: &str, to: &str) -> String {
    let part = page.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map_or("", |(part, _)| part);
    // A part may begin within a tag.
    let mut depth = i32::from(!from.ends_with('>'));
    let mut text = String::new();
    for letter in part.chars() {
        match letter {
            '<' => depth += 1,
            '>' => {
                depth -= 1;
                text.push(' ');
            }
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_first_screen_answers_five_questions() {
    let run = leaking();
    let strip = text_of(&page(&run), "id=\"verdict\"", "</section>");
    let peak = crate::text::bytes(run.peak.as_ref().unwrap().bytes);
    assert!(strip.contains(&format!("peak {peak} at 2 m 40 s")), "how high and when: {strip}");
    assert!(
        strip.contains("limit 8.00 GiB") && strip.contains("headroom"),
        "the limit and the room: {strip}"
    );
    assert!(strip.contains("made of"), "what it was made of: {strip}");
    assert!(strip.contains("leak +") && strip.contains("/step"), "leak or not, and the rate: {strip}");
    assert!(strip.contains("next nilo "), "the next command: {strip}");
}

#[test]
fn a_killed_run_says_why_first() {
    let strip = text_of(&page(&killed()), "id=\"verdict\"", "</section>");
    assert!(strip.contains("cause"), "{strip}");
}

#[test]
fn the_page_says_what_the_terminal_says() {
    let run = leaking();
    let page = page(&run);
    let text = text_of(&page, "<body>", "<script").replace(' ', "");
    for line in crate::sentence::findings(&run).iter().filter(|line| line.label != "saved") {
        let escaped = super::markup::escape(&line.text).replace(' ', "");
        assert!(text.contains(&escaped), "{} is missing: {}", line.label, line.text);
    }
}

#[test]
fn a_view_without_data_says_how_to_get_it() {
    let page = page(&leaking());
    for (view, command) in
        [("allocs", "nilo run --allocs -- "), ("sweep", "nilo sweep --set"), ("compare", "--base OTHER")]
    {
        let text = text_of(&page, &format!("<section id=\"{view}\""), "</section>");
        assert!(text.contains("not available") && text.contains(command), "{view}: {text}");
    }
}

#[test]
fn the_policy_allows_our_script_and_nothing_else() {
    let page = page(&leaking());
    let policy = page
        .split("http-equiv=\"Content-Security-Policy\" content=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let policy = policy.unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    assert!(!page.contains(" style=\"") && !page.contains(" onclick="));
    let outside = page.matches("http://").count() + page.matches("https://").count();
    let names = page.matches("http://www.w3.org/").count()
        + page.matches("https://github.com/leeoniya/uPlot").count();
    assert_eq!(outside, names, "only names of formats and of an author, no addresses to fetch");
}

fn hostile() -> Run {
    let mut run = leaking();
    let text = || HOSTILE.to_owned();
    run.command = vec![text(), text()];
    run.name = text();
    run.saved = Some(text());
    (run.about.host, run.about.directory, run.about.kernel) = (text(), text(), text());
    (run.about.started, run.about.nilo_version) = (text(), text());
    run.about.method = vec![text()];
    run.exit.evidence = vec![text()];
    run.growth.reason = text();
    run.quality = vec![text()];
    run.data_end.why = text();
    run.limit.iter_mut().for_each(|limit| limit.source = text());
    for process in &mut run.processes {
        (process.command, process.role, process.evidence) = (text(), text(), text());
    }
    run.phases = vec![Phase { name: text(), start_s: 0.0, duration_s: 100.0, peak_bytes: 1 }];
    run.notes = vec![Note { at_s: 1.0, text: text() }];
    run.events = vec![Event { at_s: 1.0, kind: "note", text: text() }];
    run.system.devices = vec![Device { name: text(), tree_max_bytes: 1, ..Device::default() }];
    run.made_of = Some(MadeOf {
        parts: vec![Part { name: text(), bytes: 5 << 20 }],
        total_bytes: 5 << 20,
        residual_bytes: 0,
        at_s: 1.0,
        from_peak_s: 0.0,
        processes_missing: 0,
        largest: vec![Mapping { pid: 1, name: text(), rss_bytes: 1, pss_bytes: 1 }],
    });
    let points = vec![Point { at_s: 0.0, min: 1, max: 2 }, Point { at_s: 1.0, min: 1, max: 2 }];
    let series = Series { width_s: 1.0, points };
    let processes = vec![ProcessSeries { pid: 1, role: text(), rss: series.clone() }];
    run.curve = Curve { tree_low: series.clone(), tree_high: series, processes, ..Curve::default() };
    run
}

fn hostile_allocs() -> Allocs {
    let frame = Frame {
        function: HOSTILE.into(),
        file: Some(HOSTILE.into()),
        line: Some(1),
        library: Some(HOSTILE.into()),
        kind: FrameKind::Python,
        inlined: false,
    };
    let amounts = Amounts { peak_bytes: 1 << 20, count: 1, ..Amounts::default() };
    let site = Site { stack: vec![Arc::new(frame)], amounts, ..Site::default() };
    Allocs { sites: vec![site], sites_seen: 1, quality: vec![HOSTILE.into()], ..Allocs::default() }
}

#[test]
fn no_name_becomes_markup() {
    let (run, allocs) = (hostile(), hostile_allocs());
    let side = || Side::of_runs(HOSTILE, vec![(HOSTILE.into(), HOSTILE.into())], vec![hostile()]);
    let comparison = compare(&side(), &[side()], &[]);
    let mut page = render(&Page {
        run: &run,
        leak: None,
        allocs: Some(&allocs),
        sweep: None,
        comparison: Some(&comparison),
        pages: None,
        job: None,
        redacted: false,
    });
    assert!(
        !page.contains("<img")
            && !page.contains("<!--")
            && !page.contains('\u{202e}')
            && !page.contains('\u{1b}')
    );
    // The bundle is ours: what remains has our two scripts and no third.
    page = page.replace(super::shell::SCRIPT, "");
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(page.matches("&lt;img src=x onerror=alert(1)&gt;").count() > 15, "names are shown as text");
}

#[test]
fn redacted_pages_keep_secrets() {
    let secret = "s3cret";
    let mut run = leaking();
    run.command = vec!["/home/ada/bin/python".into(), format!("--token={secret}")];
    run.about.host = secret.into();
    run.about.directory = format!("/home/{secret}");
    run.saved = Some(format!("{secret}.nilo"));
    run.processes.iter_mut().for_each(|process| process.command = secret.into());
    run.notes = vec![Note { at_s: 1.0, text: secret.into() }];
    run.events = vec![Event { at_s: 1.0, kind: "fork", text: secret.into() }];
    assert!(page(&run).contains(secret));
    crate::redact::run(&mut run);
    let redacted = page(&run);
    assert!(!redacted.contains(secret) && !redacted.contains("/home/ada"), "a secret is left");
    assert!(redacted.contains("peak"));
}

#[test]
fn a_thousand_ranks_are_a_light_page() {
    use crate::rank::tests::{job, ranked};
    let ranks = (0..1_000).map(|rank| {
        let mut row = ranked(rank, GrowthClass::Flat, 0.0);
        row.course = (0..256).map(|n| (f64::from(n) / 25.0, (200 + rank) << 20)).collect();
        row
    });
    let (run, job) = (leaking(), job(ranks.collect()));
    let alone = page(&run).len();
    let page = render(&Page { job: Some(&job), ..nothing_but(&run) });
    assert!(page.contains("id=\"chart-ranks\"") && page.contains("rank 999\""), "a row for each");
    assert!(page.len() - alone < 1 << 20, "{} bytes more", page.len() - alone);
}

#[test]
fn the_bundle_is_small() {
    assert!(super::shell::SCRIPT.len() + super::shell::STYLE.len() <= 150_000);
}
