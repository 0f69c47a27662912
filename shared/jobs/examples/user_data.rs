//! The user data of a machine: `identity.json` in on the standard input, the MIME document out on the standard output.
//!
//! `integration/tests/test_jobs_user_data.py` reads it as cloud-init does, and runs both parts.

use std::error::Error;
use std::io;

use jobs::{MachineIdentity, user_data};

fn main() -> Result<(), Box<dyn Error>> {
    let identity: MachineIdentity = serde_json::from_reader(io::stdin())?;
    print!("{}", user_data(&identity));
    Ok(())
}
