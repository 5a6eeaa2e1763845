//! What `mpt-ctl` asks of a tunnel, carried out.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use mpt_core::control::{Answer, LatePolicy, Reply, Request};
use mpt_core::setting::Setting;
use mpt_core::tunnel::ReorderSettings;

use crate::config::{self, Config};
use crate::daemon::Host;
use crate::tunnel::Tunnel;

/// Carries out what `mpt-ctl` asks.
pub(crate) async fn answer(host: &Host, tunnel: &mut Tunnel, request: Request) -> Reply {
    match try_answer(host, tunnel, request).await {
        Ok(answer) => Reply::Ok(answer),
        Err(error) => Reply::Error(format!("{error:#}")),
    }
}

async fn try_answer(host: &Host, tunnel: &mut Tunnel, request: Request) -> anyhow::Result<Answer> {
    let done = |text: String| Ok(Answer::Done(text));
    match request {
        Request::Status => Ok(Answer::Status(Box::new(
            tunnel.status(&host.netlink).await?,
        ))),
        Request::Paths => Ok(Answer::Paths(tunnel.status(&host.netlink).await?.paths)),
        Request::Reorder => Ok(Answer::Reorder(tunnel.reorder().await?)),
        Request::PathUp { name } => {
            let found = tunnel.set_out_of_service(&name, false).await?;
            known(tunnel, &name, found)?;
            done(format!("path {name} is back in service"))
        }
        Request::PathDown { name } => {
            let found = tunnel.set_out_of_service(&name, true).await?;
            known(tunnel, &name, found)?;
            done(format!("path {name} is out of service"))
        }
        Request::PathSet { name, weight } => {
            let weight = weight.context("nothing to set: give weight=N")?;
            let range = 1..=config::MAX_WEIGHT;
            anyhow::ensure!(
                range.contains(&weight),
                "weight is from 1 to {}; `path down` takes a path out of service",
                config::MAX_WEIGHT
            );
            let found = tunnel.set_weight(&name, weight).await?;
            known(tunnel, &name, found)?;
            done(format!("path {name} has weight {weight}"))
        }
        Request::ReorderSet {
            window,
            max_buffer_delay_us,
            late,
        } => {
            let reorder = changed(tunnel.config.reorder, window, max_buffer_delay_us, late)?;
            tunnel.set_reorder(reorder).await?;
            done(format!(
                "window = {}, max_buffer_delay = {}, late packets: {}",
                reorder.window,
                reorder.max_buffer_delay.map(humantime::format_duration),
                match reorder.late {
                    LatePolicy::Deliver => "deliver",
                    LatePolicy::Drop => "drop",
                }
            ))
        }
        Request::Reload => {
            let file = tunnel.config.file.clone();
            let config = Config::read(&file)?;
            let changed = tunnel.reload(config, host).await?;
            done(match changed {
                true => format!("{} read again", file.display()),
                false => format!("{} read again; nothing has changed", file.display()),
            })
        }
        Request::Save => {
            let config = tunnel.config.clone();
            let changed = config::save(&config.file, &config.running())?;
            done(match changed.is_empty() {
                true => format!("{} says all of this already", config.file.display()),
                false => format!("{}: {}", config.file.display(), changed.join(", ")),
            })
        }
    }
}

fn known(tunnel: &Tunnel, name: &str, found: bool) -> anyhow::Result<()> {
    let names: Vec<_> = tunnel
        .config
        .paths
        .iter()
        .map(|path| path.name.as_str())
        .collect();
    anyhow::ensure!(
        found,
        "there is no path {name:?}; the paths are {}",
        names.join(", ")
    );
    Ok(())
}

/// The reorder settings with what the request names, if that is in range.
fn changed(
    now: ReorderSettings,
    window: Option<Setting<u32>>,
    max_buffer_delay_us: Option<Setting<u64>>,
    late: Option<LatePolicy>,
) -> anyhow::Result<ReorderSettings> {
    ensure!(
        now.block.is_none(),
        "this tunnel sorts blocks and holds nothing, so it has no window to set; write mode = \"window\" in \
         [reorder] of its file, and `mpt-ctl reload`"
    );
    let delay = max_buffer_delay_us.map(|setting| setting.map(Duration::from_micros));
    let new = ReorderSettings {
        window: window.unwrap_or(now.window),
        max_buffer_delay: delay.unwrap_or(now.max_buffer_delay),
        late: late.unwrap_or(now.late),
        block: None,
    };
    ensure!(
        new.window
            .fixed()
            .is_none_or(|window| window <= config::MAX_WINDOW),
        "window is \"auto\", or from 0 (off) to {} packets",
        config::MAX_WINDOW
    );
    ensure!(
        new.max_buffer_delay
            .fixed()
            .is_none_or(|delay| config::MAX_BUFFER_DELAY_RANGE.contains(&delay)),
        "max_buffer_delay is \"auto\", or from 1ms to 10s"
    );
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_can_be_set_where_there_is_one() {
        let set = |now| changed(now, Some(64.into()), None, None);
        let window = ReorderSettings::default();
        assert_eq!(set(window).unwrap().window, 64);
        let block = ReorderSettings {
            block: Some(32),
            ..window
        };
        insta::assert_snapshot!(set(block).unwrap_err(), @r#"this tunnel sorts blocks and holds nothing, so it has no window to set; write mode = "window" in [reorder] of its file, and `mpt-ctl reload`"#);
    }
}
