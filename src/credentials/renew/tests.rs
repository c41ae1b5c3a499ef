use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{Instant, advance, sleep};
use zeroize::Zeroizing;

use super::super::github::GitHubError;
use super::super::issue::{Issued, Issuing};
use super::super::source::SourceError;
use super::*;
use crate::types::Authority;

/// The paused clock of the runtime, with a date.
fn paused() -> Clock {
    let start = Instant::now();
    Arc::new(move || SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + start.elapsed())
}

/// What an issuer does when it is asked.
#[derive(Clone, Copy)]
enum Answer {
    /// Gives a value that lives so many seconds.
    Life(u64),
    /// One that does not end.
    Endless,
    Fails,
    /// Gives that after so many seconds.
    Slow(u64, u64),
    /// Gives the value `same`, which lives so many seconds.
    Same(u64),
    /// Wants not to be asked for so many seconds.
    Limited(u64),
}

/// Gives the values `value-1`, `value-2` and so on.
struct Scripted {
    clock: Clock,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
}

impl Issuer for Scripted {
    fn issue(&self) -> Issuing<'_> {
        Box::pin(async move {
            let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            let answer = *self.answer.lock().unwrap();
            let life = match answer {
                Answer::Fails => return Err(SourceError::EnvMissing("GONE".to_owned()).into()),
                Answer::Limited(wait) => {
                    let from = Authority::parse("limited.test", 443).unwrap();
                    return Err(IssueError::GitHub { from, error: GitHubError::Limited(Duration::from_secs(wait)) });
                }
                Answer::Life(life) | Answer::Same(life) => Some(life),
                Answer::Endless => None,
                Answer::Slow(wait, life) => {
                    sleep(Duration::from_secs(wait)).await;
                    Some(life)
                }
            };
            let value = if matches!(answer, Answer::Same(_)) { "same".to_owned() } else { format!("value-{number}") };
            let secret = Secret::new("K", Zeroizing::new(value.into_bytes())).unwrap();
            Ok(Issued { secret, expires_at: life.map(|life| (self.clock)() + Duration::from_secs(life)) })
        })
    }
}

struct Rig {
    keeper: Arc<Keeper>,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
}

impl Rig {
    /// A keeper that has its first value, and a task that renews it.
    async fn start(answer: Answer) -> Self {
        Self::bounded(answer, None).await
    }

    async fn bounded(answer: Answer, longest: Option<Duration>) -> Self {
        let clock = paused();
        let (answer, asked) = (Arc::new(Mutex::new(answer)), Arc::new(AtomicUsize::new(0)));
        let issuer = Scripted { clock: Arc::clone(&clock), answer: Arc::clone(&answer), asked: Arc::clone(&asked) };
        let keeper = Arc::new(Keeper::new("K", Box::new(issuer), clock).with_longest(longest));
        keeper.start().await.unwrap();
        let renewing = Arc::clone(&keeper);
        tokio::spawn(async move { renewing.keep().await });
        Self { keeper, answer, asked }
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Lets so many seconds pass, tenth by tenth, so that whatever is due in between happens in between.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 10 {
            advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    }

    /// What a request gets at once; one that has to wait gets nothing.
    async fn gets(&self) -> Result<String, String> {
        let value = timeout(Duration::ZERO, self.keeper.value()).await.map_err(|_| "it waits".to_owned())?;
        value.map(|live| String::from_utf8_lossy(live.secret.expose()).into_owned()).map_err(|error| error.0)
    }
}

fn value(number: usize) -> Result<String, String> {
    Ok(format!("value-{number}"))
}

#[tokio::test(start_paused = true)]
async fn each_life_costs_one_renewal_and_no_request_is_without_a_value() {
    let rig = Rig::start(Answer::Life(3600)).await;
    for second in 0..3 * 3600 {
        rig.pass(1).await;
        assert!(rig.gets().await.is_ok(), "second {second}");
    }
    // Renewed 300 to 330 seconds ahead: after three hours for the third time.
    assert_eq!(rig.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_short_life_is_renewed_in_its_last_quarter() {
    let rig = Rig::start(Answer::Life(100)).await;
    rig.pass(70).await;
    assert_eq!((rig.asked(), rig.gets().await), (1, value(1)));
    rig.pass(6).await;
    assert_eq!((rig.asked(), rig.gets().await), (2, value(2)));
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_used_while_a_renewal_takes_its_time() {
    let rig = Rig::start(Answer::Life(100)).await;
    rig.answers(Answer::Slow(10, 100));
    rig.pass(77).await;
    assert_eq!((rig.asked(), rig.gets().await), (2, value(1)));
    rig.pass(10).await;
    assert_eq!((rig.asked(), rig.gets().await), (2, value(2)));
}

#[tokio::test(start_paused = true)]
async fn nobody_notices_an_issuer_that_is_down_for_less_than_the_remaining_life() {
    let rig = Rig::start(Answer::Life(3600)).await;
    rig.pass(3260).await;
    rig.answers(Answer::Fails);
    rig.pass(300).await;
    assert_eq!(rig.gets().await, value(1));
    // Doubled pauses of up to a minute, and not one attempt a second.
    assert!((5..30).contains(&rig.asked()), "{}", rig.asked());
    rig.answers(Answer::Life(3600));
    rig.pass(39).await;
    assert!(rig.gets().await.is_ok_and(|got| got != "value-1"));
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_life_fails_and_mends_itself() {
    let rig = Rig::start(Answer::Life(100)).await;
    rig.answers(Answer::Fails);
    rig.pass(101).await;
    assert_eq!(rig.gets().await, Err("the environment variable GONE is not set".to_owned()));
    rig.answers(Answer::Life(100));
    rig.pass(61).await;
    assert!(rig.gets().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_value_waits_for_the_attempt_that_runs_and_no_longer_than_that() {
    let rig = Rig::start(Answer::Life(100)).await;
    rig.answers(Answer::Slow(60, 100));
    rig.pass(99).await;
    let (keeper, before) = (Arc::clone(&rig.keeper), Instant::now());
    advance(Duration::from_secs(2)).await;
    let refused = keeper.value().await.map(drop);
    assert_eq!(refused, Err(Unavailable("its renewal takes too long".to_owned())));
    assert_eq!(before.elapsed().as_secs(), 12);
    let all = futures_of(50, &rig.keeper);
    rig.pass(30).await;
    for one in all {
        assert!(one.await.unwrap().is_ok());
    }
    assert_eq!(rig.asked(), 2);
}

fn futures_of(count: usize, keeper: &Arc<Keeper>) -> Vec<tokio::task::JoinHandle<Result<Arc<Live>, Unavailable>>> {
    let ask = |keeper: Arc<Keeper>| async move {
        loop {
            if let Ok(live) = keeper.value().await {
                return Ok(live);
            }
        }
    };
    (0..count).map(|_| tokio::spawn(ask(Arc::clone(keeper)))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_renews_once_and_the_old_value_serves_meanwhile() {
    let rig = Rig::start(Answer::Endless).await;
    let live = rig.keeper.value().await.unwrap();
    rig.answers(Answer::Slow(5, 3600));
    for _ in 0..50 {
        rig.keeper.refused(&live);
    }
    rig.pass(1).await;
    assert_eq!((rig.asked(), rig.gets().await), (2, value(1)));
    rig.pass(5).await;
    assert_eq!((rig.asked(), rig.gets().await), (2, value(2)));
    // Late answers to the old value, and an upstream that refuses the new one as well.
    rig.keeper.refused(&live);
    rig.keeper.refused(&rig.keeper.value().await.unwrap());
    rig.pass(5).await;
    assert_eq!(rig.asked(), 2);
    rig.pass(60).await;
    rig.keeper.refused(&rig.keeper.value().await.unwrap());
    rig.pass(6).await;
    assert_eq!(rig.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_stays_when_its_source_fails() {
    let rig = Rig::start(Answer::Endless).await;
    rig.answers(Answer::Fails);
    rig.keeper.refused(&rig.keeper.value().await.unwrap());
    rig.pass(300).await;
    assert_eq!((rig.asked(), rig.gets().await), (2, value(1)));
}

#[tokio::test(start_paused = true)]
async fn an_issuer_of_values_that_are_over_at_once_is_not_asked_without_end() {
    let rig = Rig::start(Answer::Life(1)).await;
    rig.answers(Answer::Life(0));
    rig.pass(20).await;
    assert!((10..90).contains(&rig.asked()), "{}", rig.asked());
}

#[tokio::test(start_paused = true)]
async fn the_values_before_are_remembered_and_not_all_of_them() {
    let rig = Rig::start(Answer::Life(10)).await;
    rig.pass(60).await;
    let generations = |rig: &Rig| rig.keeper.seen().iter().map(|live| live.generation).collect::<Vec<_>>();
    let newest = rig.asked() as u64 - 1;
    assert_eq!(generations(&rig), (0..=newest).rev().collect::<Vec<_>>());
    rig.pass(1200).await;
    assert_eq!((generations(&rig).len(), generations(&rig)[0]), (FORMER + 1, rig.asked() as u64 - 1));
    assert_eq!(format!("{:?} {:?}", rig.keeper, rig.keeper.seen()[0].secret), "Keeper(\"K\") Secret(K)");
}

/// Else the sandbox could have a value pushed out of what answers are searched for.
#[tokio::test(start_paused = true)]
async fn refusals_push_no_value_out() {
    let rig = Rig::start(Answer::Endless).await;
    for _ in 0..FORMER + 20 {
        rig.keeper.refused(&rig.keeper.value().await.unwrap());
        rig.pass(61).await;
    }
    assert_eq!((rig.asked(), rig.keeper.seen().last().unwrap().generation), (FORMER + 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_bound_on_its_life_ends_a_value_that_would_live_longer() {
    for answer in [Answer::Endless, Answer::Life(3600)] {
        let rig = Rig::bounded(answer, Some(Duration::from_secs(100))).await;
        rig.pass(81).await;
        assert_eq!((rig.asked(), rig.gets().await), (2, value(2)));
    }
}

/// Such as a variable's, or that of a tool which keeps its token until it ends.
#[tokio::test(start_paused = true)]
async fn the_same_value_again_lives_on_and_is_nothing_to_remember() {
    let rig = Rig::start(Answer::Same(100)).await;
    rig.pass(1000).await;
    assert!(rig.asked() > 10);
    assert_eq!(rig.gets().await, Ok("same".to_owned()));
    let seen = rig.keeper.seen();
    assert_eq!((seen.len(), seen[0].generation), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn who_can_ask_again_waits_for_the_renewal() {
    let rig = Rig::start(Answer::Endless).await;
    let first = rig.keeper.value().await.unwrap();
    *rig.answer.lock().unwrap() = Answer::Slow(3, 3600);
    let began = Instant::now();
    assert!(rig.keeper.renewed(&first).await);
    assert_eq!(began.elapsed().as_secs(), 3);
    // Who was refused with the former value has another one at once, and so soon there is no further one.
    assert!(rig.keeper.renewed(&first).await);
    assert!(!rig.keeper.renewed(&rig.keeper.value().await.unwrap()).await);
    assert_eq!((began.elapsed().as_secs(), rig.asked.load(Ordering::SeqCst)), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_none() {
    let rig = Rig::start(Answer::Endless).await;
    *rig.answer.lock().unwrap() = Answer::Fails;
    assert!(!rig.keeper.renewed(&rig.keeper.value().await.unwrap()).await);
}

#[tokio::test(start_paused = true)]
async fn whoever_says_how_long_to_wait_is_not_asked_before() {
    let rig = Rig::start(Answer::Life(2000)).await;
    rig.answers(Answer::Limited(900));
    // Due 300 to 330 seconds before the end.
    rig.pass(1701).await;
    assert_eq!((rig.asked(), rig.gets().await), (2, value(1)));
    // Neither the end of the value nor a refusal is a reason.
    let live = rig.keeper.value().await.unwrap();
    rig.keeper.refused(&live);
    rig.pass(850).await;
    assert_eq!(rig.asked(), 2);
    assert!(rig.gets().await.unwrap_err().contains("is not asked again for 900 seconds"));
    rig.answers(Answer::Life(2000));
    rig.pass(60).await;
    assert_eq!((rig.asked(), rig.gets().await), (3, value(3)));
}
