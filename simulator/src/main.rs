//! Simulates crashes of the-loop gateway and says whether it kept its promises.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use simulator::{Counts, Plan, Report, play};
use the_loop_gateway::domain::{Clock, SystemClock};

/// Lines of the history that are shown of a simulation that failed.
const LINES_SHOWN: usize = 40;

const EXAMPLES: &str = "\
Examples:
  simulator --seed 7 --steps 10000            one history
  simulator --seed 0 --seeds 1000 --steps 10000
  simulator --seed 7 --steps 2000 --print     the history itself, the same at every run
  simulator --seed 0 --seeds 200 --until-broken --break ack-before-commit
                                              (built with --features broken-promises)

Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage.";

/// Simulate crashes: the gateway's store and actors over a disk that loses power
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct CommandLine {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, one after the other
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Steps of each history
    #[arg(long, default_value_t = 2_000)]
    steps: u32,
    /// Histories at once [default: one a core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Write the histories
    #[arg(long)]
    print: bool,
    /// Stop at the first broken promise
    #[arg(long)]
    until_broken: bool,
    /// Break this promise of the gateway on purpose
    #[cfg(feature = "broken-promises")]
    #[arg(long = "break", value_name = "NAME", value_parser = parse_break)]
    broken: Option<the_loop_gateway::broken::Break>,
}

#[cfg(feature = "broken-promises")]
fn parse_break(name: &str) -> Result<the_loop_gateway::broken::Break, String> {
    use the_loop_gateway::broken::Break;
    Break::parse(name).ok_or_else(|| {
        let names: Vec<_> = Break::ALL.iter().map(|one| one.name()).collect();
        format!("it is one of {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let options = CommandLine::parse();
    #[cfg(feature = "broken-promises")]
    the_loop_gateway::broken::choose(options.broken);
    let began = SystemClock.instant();
    let reports = play_all(&options);
    println!("{}", summary(&options, &reports, began.elapsed()));
    if reports.iter().any(|report| report.broken.is_some()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Plays every seed; the history of one that kept its promises is dropped.
fn play_all(options: &CommandLine) -> Vec<Report> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.unwrap_or(cores).max(1);
    let end = options.seed.saturating_add(options.seeds);
    let next = AtomicU64::new(options.seed);
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= end {
                        return;
                    }
                    let mut report = play(Plan {
                        seed,
                        steps: options.steps,
                    });
                    show(options, &report);
                    if report.broken.is_some() && options.until_broken {
                        next.store(end, Ordering::SeqCst);
                    }
                    report.history = simulator::history::History::default();
                    reports.lock().expect("no panic").push(report);
                }
            });
        }
    });
    let mut reports = reports.into_inner().expect("no panic");
    reports.sort_by_key(|report| report.plan.seed);
    reports
}

fn show(options: &CommandLine, report: &Report) {
    let seed = report.plan.seed;
    if options.print {
        println!("{}", report.history.text());
    }
    if let Some((step, broken)) = &report.broken {
        if !options.print {
            println!("{}", report.history.tail(LINES_SHOWN));
        }
        println!("seed {seed}, step {step}: {}", broken.0);
    }
}

fn summary(options: &CommandLine, reports: &[Report], took: Duration) -> String {
    let sum = |of: fn(&Counts) -> u32| -> u64 {
        reports
            .iter()
            .map(|report| u64::from(of(&report.counts)))
            .sum()
    };
    let broken: Vec<u64> = reports
        .iter()
        .filter(|report| report.broken.is_some())
        .map(|report| report.plan.seed)
        .collect();
    format!(
        "{} histories of {} steps in {:.1} s: {} power cuts, {} kills, {} stops, {} refusals of the \
         disk; {} events acknowledged, {} deliveries handed out, {} outcomes confirmed, {} dead, {} \
         expired; broken: {broken:?}",
        reports.len(),
        options.steps,
        took.as_secs_f64(),
        sum(|counts| counts.cuts),
        sum(|counts| counts.kills),
        sum(|counts| counts.stops),
        sum(|counts| counts.faults),
        sum(|counts| counts.events),
        sum(|counts| counts.deliveries),
        sum(|counts| counts.outcomes),
        sum(|counts| counts.dead),
        sum(|counts| counts.expired),
    )
}
