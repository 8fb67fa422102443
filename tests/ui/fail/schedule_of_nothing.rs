use tvm::prelude::*;

#[schedule]
fn tiled(s: &mut Schedule) -> Result<(), ScheduleError> {
    s.block("C")?;
    Ok(())
}

fn main() {}
