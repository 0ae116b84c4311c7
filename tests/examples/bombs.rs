//! Writes a component that is made to harm its compiler: `bombs SHAPE FIRST SECOND FILE`.

use testkit::bombs;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [shape, first, second, file] = arguments.as_slice() else { panic!("four arguments") };
    let (first, second) = (first.parse().unwrap(), second.parse().unwrap());
    let component = match shape.as_str() {
        "locals" => bombs::locals_and_blocks(first, second),
        "loops" => bombs::loops(first, second),
        "tables" => bombs::tables(first, second),
        "pressure" => bombs::pressure(first),
        "calls" => bombs::calls(first, second),
        "memories" => bombs::two_memories(),
        other => panic!("no shape {other}"),
    };
    std::fs::write(file, component).unwrap();
}
