//! `mpt-ctl top`: peers and paths as they go on, on the whole screen.
//!
//! `asking` is a thread that asks the daemon, so that a daemon which does not answer holds up no key. `view` is what is
//! shown and what keys do to it, without a terminal; `screen` draws it. `terminal` has the terminal, and gives it back
//! however the program ends.

mod asking;
mod columns;
mod rows;
mod screen;
mod terminal;
mod track;
mod view;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use mpt_core::control::Request;
use mpt_measure::table::Look;

use crate::client::{self, ClientError, USAGE};
use asking::Asking;
use terminal::Screen;
use view::{Action, View};

/// Time between two questions where `--watch` says nothing: sparklines are of the last minutes then.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// How long a key, a signal or an answer may wait to be seen.
const TICK: Duration = Duration::from_millis(100);
/// What says how long ago something was is drawn anew so often.
const REDRAW: Duration = Duration::from_secs(1);

pub(crate) const AFTER_HELP: &str = "\
Keys:
  ↑ ↓, k j    choose a path, or a hub's peer
  Enter       show the paths of a hub's peer, or hide them
  s, r        sort by the next column; the other way round
  p           pause: the picture stands still
  d, u        take a path out of service (asks first), put it back
  ?, q        help; quit (also Ctrl-C, Esc)

Columns:
  OUT, IN     bits a second
  RTT         smoothed round trip of the probes
  LOSS        share of what was sent here recently that the peer misses
  QUEUE       how long packets wait in a queue on the way
  SHARE       of all that is sent, what goes over it
Below each number stands its past, the newest on the right, as high as its
greatest (loss: or 1 %; queue: or 10 ms; share: 100 %).

Needs a terminal, of 40 x 8 at least; in a wider and higher one more is shown.
NO_COLOR is obeyed. --watch SECONDS asks the daemon more or less often than once
a second.";

/// Why there is nothing to be seen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopError {
    #[error(
        "top needs a terminal on the standard output; `mpt-ctl status` says the same once, and `mpt-ctl --watch status` \
         again and again"
    )]
    NoTerminal,
    #[error(
        "this terminal cannot move its cursor (TERM={0:?}); use `mpt-ctl status`, or set TERM to what it is, such as xterm"
    )]
    Dumb(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the terminal fails: {0}")]
    Terminal(#[from] io::Error),
}

impl TopError {
    /// The exit code that `--help` promises.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoTerminal | Self::Dumb(_) => USAGE,
            Self::Client(error) => error.exit_code(),
            Self::Terminal(_) => 1,
        }
    }
}

/// Whether there is a terminal to draw on.
pub(crate) fn check_terminal() -> Result<(), TopError> {
    if !io::stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let term = std::env::var("TERM").unwrap_or_default();
    match &*term {
        "" | "dumb" => Err(TopError::Dumb(term)),
        _ => Ok(()),
    }
}

/// Shows the tunnel until somebody quits, or a signal comes. A daemon that goes away is waited for; one that is not
/// there at the start is an error.
pub(crate) fn run(socket: &Path, interval: Duration, look: Look) -> Result<(), TopError> {
    let first = client::ask(socket, &Request::Status)?;
    let mut view = View::new(look.colour);
    view.take(
        asking::status(first).map_err(|error| error.to_string()),
        Instant::now(),
    );
    let asking = Asking::start(socket.to_owned(), interval);
    let ending = terminal::ending()?;
    let mut screen = Screen::open()?;
    let (mut is_new, mut drawn) = (true, Instant::now());
    while !ending() {
        if is_new || drawn.elapsed() >= REDRAW {
            (is_new, drawn) = (false, Instant::now());
            screen.draw(|frame| screen::draw(frame, &view, drawn))?;
        }
        for key in screen.keys(TICK)? {
            is_new = true;
            match key.map_or(Action::Nothing, |key| view.press(key)) {
                Action::Nothing => {}
                Action::Ask(request) => asking.wish(request),
                Action::Quit => return Ok(()),
            }
        }
        while let Some(news) = asking.news() {
            is_new = true;
            view.learn(news, Instant::now());
        }
    }
    Ok(())
}
