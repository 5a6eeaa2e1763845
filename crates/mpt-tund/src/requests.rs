//! What `mpt-ctl` asks of a tunnel, carried out.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use mpt_core::control::setting::Setting;
use mpt_core::control::units::rate_of;
use mpt_core::control::{Answer, LatePolicy, Missing, Reply, Request, Secret};
use mpt_core::crypto::{PresharedKey, PublicKey};
use mpt_core::limits;
use mpt_core::send::scheduler::Policy;
use mpt_core::tunnel::ReorderSettings;
use mpt_core::wire::name::PathName;

use crate::config::{self, Config, Mistake, Origin, Peer, PeerChange, Roster};
use crate::host::Host;
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
        Request::Status => Ok(Answer::Status(Box::new(tunnel.status(host).await?))),
        Request::Paths => Ok(Answer::Paths(tunnel.status(host).await?.paths)),
        Request::Reorder => {
            two_ends(&tunnel.config)?;
            Ok(Answer::Reorder(tunnel.reorder().await?))
        }
        Request::Trace { name, from } => {
            no_hub(&tunnel.config)?;
            traceable(&tunnel.config, &name)?;
            Ok(Answer::Trace(tunnel.trace(&name, from).await?))
        }
        // These are answered where more is known than of a tunnel that runs.
        Request::History { .. } | Request::Log { .. } | Request::Reload => {
            bail!("this is not the tunnel's to answer")
        }
        Request::Peers => {
            hub(&tunnel.config)?;
            Ok(Answer::Peers(tunnel.list_peers().await?))
        }
        Request::PeerShow { name } => {
            hub(&tunnel.config)?;
            let shown = tunnel.show_peer(&name).await?;
            let shown = shown.with_context(|| unknown_peer(&name))?;
            Ok(Answer::Peer(Box::new(shown)))
        }
        Request::PeerAdd {
            name,
            public_key,
            allowed_ips,
            psk,
            rate_limit,
        } => {
            let roster = hub(&tunnel.config)?;
            ensure!(
                PathName::new(&name).is_some(),
                "{name:?} is no name: use 1 to 32 letters, digits, '-', '_' or '.', a letter or digit first"
            );
            ensure!(
                roster.len() < config::MAX_PEERS,
                "a hub has at most {} peers",
                config::MAX_PEERS
            );
            let new = Peer {
                name: name.clone(),
                public_key: key_of(&public_key)?,
                psk: psk.map_or(Ok(PresharedKey::none()), |psk| psk_of(&psk))?,
                allowed_ips: networks_of(&allowed_ips)?,
                rate_limit: rate_limit.map_or(Ok(None), |rate| limit_of(&rate))?,
                origin: Origin::Request,
            };
            tunnel.exchange_peer(None, Some(new.clone())).await?;
            done(kept(&tunnel.config, &new, PeerAct::Added))
        }
        Request::PeerSet {
            name,
            public_key,
            allowed_ips,
            psk,
            rate_limit,
        } => {
            let old = hub(&tunnel.config)?.get(&name).cloned();
            ensure!(
                public_key.is_some()
                    || allowed_ips.is_some()
                    || psk.is_some()
                    || rate_limit.is_some(),
                "nothing to set: give public_key=KEY, allowed_ips=PREFIX,…, psk_file=FILE or rate_limit=RATE"
            );
            let old = old.with_context(|| unknown_peer(&name))?;
            let mut peer = Peer::clone(&old);
            if let Some(key) = public_key {
                peer.public_key = key_of(&key)?;
            }
            if let Some(prefixes) = allowed_ips {
                peer.allowed_ips = networks_of(&prefixes)?;
            }
            if let Some(psk) = psk {
                peer.psk = psk_of(&psk)?;
            }
            if let Some(rate) = rate_limit {
                peer.rate_limit = limit_of(&rate)?;
            }
            tunnel.exchange_peer(Some(&old), Some(peer)).await?;
            done(kept(&tunnel.config, &old, PeerAct::Changed))
        }
        Request::PeerRemove { name } => {
            let old = hub(&tunnel.config)?.get(&name).cloned();
            let old = old.with_context(|| unknown_peer(&name))?;
            tunnel.exchange_peer(Some(&old), None).await?;
            done(kept(&tunnel.config, &old, PeerAct::Removed))
        }
        Request::PathUp { name } => {
            known(&tunnel.config, &name)?;
            no_hub(&tunnel.config)?;
            tunnel.set_out_of_service(&name, false).await?;
            if tunnel.is_used_up(&name) {
                return done(format!(
                    "path {name} is back in service when its budget allows: it is used up, and at_budget is \"off\""
                ));
            }
            done(format!("path {name} is back in service"))
        }
        Request::PathDown { name } => {
            known(&tunnel.config, &name)?;
            no_hub(&tunnel.config)?;
            tunnel.set_out_of_service(&name, true).await?;
            done(format!("path {name} is out of service"))
        }
        Request::PathSet { name, weight } => {
            no_hub(&tunnel.config)?;
            let weight = settable_weight(&tunnel.config, &name, weight)?;
            tunnel.set_weight(&name, weight).await?;
            done(format!("path {name} has weight {weight}"))
        }
        Request::ReorderSet {
            window,
            max_buffer_delay_us,
            late,
        } => {
            two_ends(&tunnel.config)?;
            let reorder = changed(tunnel.config.reorder, window, max_buffer_delay_us, late)?;
            tunnel.set_reorder(reorder).await?;
            done(format!(
                "window = {}, max_buffer_delay = {}, late packets: {}",
                reorder.window,
                reorder.max_buffer_delay.map(humantime::format_duration),
                reorder.late.name()
            ))
        }
        Request::Save => {
            let config = tunnel.config.clone();
            let changed = host.files.save(&config)?;
            let saved = host.files.read(&config.file)?;
            done(told_saved(
                &config,
                &changed,
                &unsaved_peers(&config, saved),
            ))
        }
    }
}

/// Reads the tunnel's file again, and has the tunnel want what it says. Whether that is anything else than before.
///
/// # Errors
/// A mistake in any file, or what takes a restart.
pub(crate) async fn reload(host: &Host, tunnel: &mut Tunnel) -> anyhow::Result<bool> {
    let file = tunnel.config.file.clone();
    // Together, as at the start: what does not go with another tunnel's file is refused.
    let loaded = host.files.load();
    if !loaded.mistakes.is_empty() {
        let mistakes: Vec<String> = loaded.mistakes.iter().map(Mistake::to_string).collect();
        bail!(mistakes.join("\n"));
    }
    let mut configs = loaded.configs.into_iter();
    let config = match configs.find(|config| config.file == file) {
        Some(config) => config,
        None => host.files.read(&file)?,
    };
    tunnel.reload(config, host).await
}

/// What a reload has come to, to be asked once all was tried that is wanted now.
pub(crate) fn reloaded(tunnel: &Tunnel, changed: bool) -> String {
    let config = &tunnel.config;
    let mut text = told_reloaded(&config.file, changed, &tunnel.missing());
    for mistake in config.peer_mistakes() {
        text += &format!("\nnot followed: {mistake}");
    }
    for warning in config.warnings() {
        text += &format!("\n{warning}");
    }
    text
}

/// Refuses what only a hub has.
fn hub(config: &Config) -> anyhow::Result<&Roster> {
    config.peers.as_ref().with_context(|| {
        format!(
            "this tunnel has two ends and no peers; [[peers]] in {} would make it a hub",
            config.file.display()
        )
    })
}

/// Nothing is known of the path of this name.
pub(crate) fn no_history(name: &str, known: &[&str]) -> String {
    match known {
        [] => format!(
            "nothing is known of a path {name:?}, nor of any other: the tunnel did not run yet"
        ),
        known => format!(
            "nothing is known of a path {name:?}; the last 24 hours have {}",
            known.join(", ")
        ),
    }
}

fn unknown_peer(name: &str) -> String {
    format!("there is no peer {name:?}; `mpt-ctl peers` lists them")
}

/// What is asked of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerAct {
    Added,
    Changed,
    Removed,
}

/// What was done to a peer, how long that holds, and what makes it stay.
fn kept(config: &Config, peer: &Peer, act: PeerAct) -> String {
    let name = &peer.name;
    let done = match act {
        PeerAct::Added => format!("peer {name} may call"),
        PeerAct::Changed => format!("peer {name} is changed"),
        PeerAct::Removed => format!("peer {name} is taken away"),
    };
    let gone = act == PeerAct::Removed;
    let how = match (&peer.origin, &config.peers_dir) {
        (Origin::Own(file), _) if gone => format!("remove {}", file.display()),
        (Origin::Own(file), _) => format!("change {}", file.display()),
        (Origin::Tunnel(file), _) if gone => {
            format!("take it out of [[peers]] in {}", file.display())
        }
        (Origin::Tunnel(file), _) => format!("change it in [[peers]] of {}", file.display()),
        // No file would bring it back.
        (Origin::Request, _) if gone => return done,
        (Origin::Request, Some(dir)) => {
            let file = dir.folder.join(format!("{name}.toml"));
            format!("write {}", file.display())
        }
        (Origin::Request, None) => format!("add it to [[peers]] in {}", config.file.display()),
    };
    let until = match peer.own_file() {
        Some(_) => "until its file changes, or the next reload or start",
        None => "until the next reload or start",
    };
    format!("{done}, {until}; to keep that, {how}")
}

/// What makes the peers that run of those that the files have: what `save` does not write.
fn unsaved_peers(running: &Config, mut saved: Config) -> PeerChange {
    saved.keep_peers_of(running);
    match (&saved.peers, &running.peers) {
        (Some(saved), Some(running)) => PeerChange::between(saved, running),
        (None, _) | (_, None) => PeerChange::default(),
    }
}

/// What a save has come to.
fn told_saved(config: &Config, changed: &[String], peers: &PeerChange) -> String {
    let file = config.file.display();
    let done = match (changed.is_empty(), peers.is_empty()) {
        (true, true) => format!("{file} says all of this already"),
        (true, false) => format!("{file} says all else already"),
        (false, _) => format!("{file}: {}", changed.join(", ")),
    };
    if peers.is_empty() {
        return done;
    }
    format!("{done}; peers are not saved, and the files do not have this: {peers}")
}

fn key_of(text: &str) -> anyhow::Result<PublicKey> {
    PublicKey::from_base64(text)
        .with_context(|| "public_key: give what `mpt-ctl pubkey < private.key` prints at the peer")
}

fn psk_of(text: &Secret) -> anyhow::Result<PresharedKey> {
    match &*text.0 {
        "none" => Ok(PresharedKey::none()),
        text => PresharedKey::from_base64(text)
            .with_context(|| "psk: give what `mpt-ctl genpsk` prints, or none"),
    }
}

fn limit_of(text: &str) -> anyhow::Result<Option<u64>> {
    if text == "none" {
        return Ok(None);
    }
    let rate = rate_of(text).filter(|rate| limits::RATE_LIMITS.contains(rate));
    rate.map(Some).with_context(|| {
        format!("rate_limit: {text:?} is none: give a rate like \"100 Mbit/s\", from 8 kbit/s to 100 Gbit/s, or none")
    })
}

fn networks_of(prefixes: &[String]) -> anyhow::Result<Arc<[(IpAddr, u8)]>> {
    ensure!(
        !prefixes.is_empty(),
        "allowed_ips is empty: the peer could neither send nor be reached"
    );
    ensure!(
        prefixes.len() <= config::MAX_ALLOWED,
        "a peer has at most {} prefixes",
        config::MAX_ALLOWED
    );
    let network = |text: &String| {
        config::network_of(text).with_context(|| {
            format!(
                "{text:?} is no network: write ADDRESS/LENGTH without host bits, like 10.99.0.2/32"
            )
        })
    };
    prefixes.iter().map(network).collect()
}

/// Refuses what a path of a hub has not.
fn no_hub(config: &Config) -> anyhow::Result<()> {
    ensure!(
        config.peers.is_none(),
        "this tunnel is a hub, and its paths are where peers call: whether one is used, and how, is decided at \
         the peer; `mpt-ctl peers` shows them"
    );
    Ok(())
}

/// Refuses what each peer of a hub has by itself.
fn two_ends(config: &Config) -> anyhow::Result<()> {
    ensure!(
        config.peers.is_none(),
        "a hub puts each peer's packets in order by itself: `mpt-ctl peer show NAME` shows how; [reorder] in {} and \
         `mpt-ctl reload` change it for all of them",
        config.file.display()
    );
    Ok(())
}

/// What a reload has come to.
fn told_reloaded(file: &Path, changed: bool, missing: &[Missing]) -> String {
    let file = file.display();
    let what = match changed {
        true => format!("{file} read again"),
        false => format!("{file} read again; nothing has changed"),
    };
    if missing.is_empty() {
        return what;
    }
    let missing: Vec<String> = missing
        .iter()
        .map(|one| format!("{} ({})", one.what, one.why))
        .collect();
    format!(
        "{what}; still missing, and tried again until it is there: {}",
        missing.join(", ")
    )
}

fn known(config: &Config, name: &str) -> anyhow::Result<()> {
    let names = config.paths.iter().map(|path| path.name.as_str());
    let names: Vec<&str> = names.collect();
    ensure!(
        names.contains(&name),
        "there is no path {name:?}; the paths are {}",
        names.join(", ")
    );
    Ok(())
}

/// Whether rates are found for the path.
fn traceable(config: &Config, name: &str) -> anyhow::Result<()> {
    known(config, name)?;
    let scheduler = config.tunnel.scheduler;
    ensure!(
        scheduler == Policy::Adaptive,
        "the scheduler is {}, which finds no rates; with scheduler = \"adaptive\" in [tunnel] of {} it would",
        scheduler.name(),
        config.file.display()
    );
    Ok(())
}

/// The weight that the request gives to a path, if it may be set and changes anything.
fn settable_weight(config: &Config, name: &str, weight: Option<u32>) -> anyhow::Result<u32> {
    known(config, name)?;
    let weight = weight.context("nothing to set: give weight=N")?;
    ensure!(
        limits::WEIGHTS.contains(&weight),
        "weight is from 1 to {}; `path down` takes a path out of service",
        limits::WEIGHTS.end()
    );
    let file = config.file.display();
    match config.tunnel.scheduler {
        Policy::Weighted | Policy::Backup | Policy::Flow => Ok(weight),
        Policy::Adaptive => bail!(
            "the scheduler is adaptive: each path gets what it turns out to deliver, whatever its weight; \
             for shares by weight write scheduler = \"weighted\" in [tunnel] of {file}, and `mpt-ctl \
             reload`"
        ),
        Policy::Redundant => bail!(
            "the scheduler is redundant: every packet goes over every path, whatever its weight; for \
             shares by weight write scheduler = \"weighted\" in [tunnel] of {file}, and `mpt-ctl reload`"
        ),
    }
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
    let given = [
        window.is_some(),
        max_buffer_delay_us.is_some(),
        late.is_some(),
    ];
    ensure!(
        given.contains(&true),
        "nothing to set: give window=N, max_buffer_delay=D or late=deliver|drop"
    );
    let off = window.unwrap_or(now.window) == Setting::Fixed(0);
    ensure!(
        !off || (max_buffer_delay_us.is_none() && late.is_none()),
        "with window=0 nothing is put in order, so that no packet is held or late; set window=auto as well"
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
            .is_none_or(|window| window <= limits::MAX_WINDOW),
        "window is \"auto\", or from 0 (off) to {} packets",
        limits::MAX_WINDOW
    );
    ensure!(
        new.max_buffer_delay
            .fixed()
            .is_none_or(|delay| limits::HOLDS.contains(&delay)),
        "max_buffer_delay is \"auto\", or from 1ms to 10s"
    );
    Ok(new)
}

#[cfg(test)]
mod tests;
