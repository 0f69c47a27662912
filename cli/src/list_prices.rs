//! List prices for commands: the Price List's answers, kept for a day in the user's cache directory.
//!
//! List prices are the same for every account, so one file serves all profiles. The file is untrusted, and never an error: a file that is
//! absent, damaged, too large, or of another endpoint is as good as none, and old or impossible prices in it are dropped.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use billing::price::{PriceBook, PriceDocument};
use cloud::Aws;
use jiff::Timestamp;
use model::id::{Region, TypeName};
use model::observation::Gap;
use serde::{Deserialize, Serialize};

use crate::world;

const SCHEMA: u32 = 1;

/// Size that no cache reaches: all prices of accelerated types take some 200 kB.
const BYTES_MAX: u64 = 4 << 20;

/// Things without a list price of today.
#[derive(Debug, Default)]
pub(crate) struct WantedPrices {
    pub(crate) on_demand: BTreeSet<(Region, TypeName)>,
    /// The regions of volumes.
    pub(crate) storage: BTreeSet<Region>,
}

/// Asks the Price List for what is wanted and unknown: by family, and by type for what neither the answer of a family nor the dated table has. So
/// a type that the list leaves out keeps the price of the table, with its day.
pub(crate) async fn refresh(
    aws: &Aws,
    known: &mut PriceDocument,
    wanted: &WantedPrices,
    now: Timestamp,
    timeout: Duration,
) -> Vec<Gap> {
    let WantedPrices { on_demand, storage } = wanted;
    let by_family = known.wanted_of_families(on_demand, storage, now);
    let gaps = cloud::prices(aws, known, &by_family, now, timeout).await;
    if !gaps.is_empty() {
        return gaps;
    }
    let table = PriceBook::dated();
    let is_in_no_table = |(region, name): &&(Region, TypeName)| table.on_demand(region, name).is_none();
    let untabled = on_demand.iter().filter(is_in_no_table).cloned().collect();
    let by_type = known.wanted_of_types(&untabled, &BTreeSet::new(), now);
    cloud::prices(aws, known, &by_type, now, timeout).await
}

#[derive(Serialize, Deserialize)]
struct CacheDocument {
    schema: u32,
    /// The endpoint that answered, if it is not AWS's own.
    endpoint: Option<String>,
    prices: PriceDocument,
}

/// The cache file of the user.
pub(crate) struct PriceCache {
    path: PathBuf,
    endpoint: Option<String>,
}

impl PriceCache {
    /// Returns the file for the endpoint of that connection; `None` if there is no cache directory. A stand-in for AWS has prices of its own: they
    /// are kept only where `XDG_CACHE_HOME` names a directory for them.
    pub(crate) fn locate(aws: &Aws) -> Option<Self> {
        let own = world::variable("AWS_ENDPOINT_URL_PRICING");
        let endpoint = own.or_else(|| aws.sdk_config().endpoint_url().map(str::to_owned));
        let (xdg, home) = (world::variable("XDG_CACHE_HOME"), world::variable("HOME"));
        let folder = cache_folder(xdg.as_deref(), home.as_deref().filter(|_| endpoint.is_none()))?;
        Some(Self { path: folder.join("curfew").join("prices.json"), endpoint })
    }

    /// Returns the prices of the last day; none if there is no such file.
    pub(crate) fn load(&self, now: Timestamp) -> PriceDocument {
        let document = read(&self.path).filter(|document| document.schema == SCHEMA);
        let document = document.filter(|document| document.endpoint == self.endpoint);
        document.map(|document| document.prices.cacheable(now)).unwrap_or_default()
    }

    /// Keeps the prices of the last day besides those in the file. A file that cannot be written is left out: the next command asks again.
    pub(crate) fn store(&self, prices: &PriceDocument, now: Timestamp) {
        let mut all = self.load(now);
        let before = all.clone();
        all.merge(prices.clone().cacheable(now));
        let all = all.cacheable(now);
        if all != before {
            let document = CacheDocument { schema: SCHEMA, endpoint: self.endpoint.clone(), prices: all };
            let _ = write(&self.path, &document);
        }
    }
}

/// XDG Base Directory Specification: a relative path counts as none. macOS has a directory of its own.
fn cache_folder(xdg: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
    let absolute = |path: Option<&str>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache_folder = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    absolute(xdg).or_else(|| absolute(home).map(|home| home.join(cache_folder)))
}

fn read(path: &Path) -> Option<CacheDocument> {
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|facts| facts.is_file()))?;
    let mut text = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Writes a file beside it and renames that one, so that no command reads half a file.
fn write(path: &Path, document: &CacheDocument) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let text = serde_json::to_vec(document)?;
    let beside = folder.join(format!("prices.json.{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-09-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn listed(at: &str) -> PriceDocument {
        let mut document = PriceDocument::default();
        document.learn_listed("eu-west-1".into(), "g5.xlarge".into(), Some(1_123_000), at.parse().unwrap());
        document
    }

    fn cache(folder: &Path, endpoint: Option<&str>) -> PriceCache {
        PriceCache { path: folder.join("curfew/prices.json"), endpoint: endpoint.map(str::to_owned) }
    }

    /// A folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("curfew-prices-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn an_answer_is_kept_for_a_day_and_for_its_endpoint() {
        let folder = folder("day");
        let own = cache(&folder, None);
        assert_eq!(own.load(now()), PriceDocument::default());
        own.store(&listed("2026-09-01T11:00:00Z"), now());
        assert_eq!(own.load(now()), listed("2026-09-01T11:00:00Z"));
        assert_eq!(own.load("2026-09-02T11:00:00Z".parse().unwrap()), PriceDocument::default());
        assert_eq!(cache(&folder, Some("http://127.0.0.1:1")).load(now()), PriceDocument::default());
        let names: Vec<_> =
            fs::read_dir(folder.join("curfew")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["prices.json"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = folder("damaged");
        let own = cache(&folder, None);
        own.store(&listed("2026-09-01T11:00:00Z"), now());
        let text = fs::read_to_string(&own.path).unwrap();
        for (damaged, is_read) in [
            (text.clone(), true),
            (text.replace("\"schema\":1", "\"schema\":2"), false),
            (text.replace("1123000", "0"), false),
            (text.replace("1123000", "-1"), false),
            (text.replace("2026-09-01T11", "2036-09-01T11"), false),
            (text[..text.len() / 2].to_owned(), false),
            (String::new(), false),
            (" ".repeat(5 << 20), false),
        ] {
            fs::write(&own.path, &damaged).unwrap();
            assert_eq!(own.load(now()) != PriceDocument::default(), is_read, "{}", damaged.len());
        }
        fs::remove_file(&own.path).unwrap();
        fs::create_dir(&own.path).unwrap();
        assert_eq!(own.load(now()), PriceDocument::default());
        own.store(&listed("2026-09-01T11:00:00Z"), now());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_folder_is_that_of_the_user() {
        let check = |xdg, home, expect: Option<&str>| assert_eq!(cache_folder(xdg, home), expect.map(PathBuf::from));
        let cache_folder = if cfg!(target_os = "macos") { "/home/ada/Library/Caches" } else { "/home/ada/.cache" };
        check(Some("/cache"), Some("/home/ada"), Some("/cache"));
        check(Some("cache"), Some("/home/ada"), Some(cache_folder));
        check(None, Some("/home/ada"), Some(cache_folder));
        check(None, None, None);
    }
}
