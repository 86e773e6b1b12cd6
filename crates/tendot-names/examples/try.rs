use std::io::BufRead;
use tendot_names::*;
fn main() {
    let repairing = std::env::args().nth(1).as_deref() == Some("repair");
    for line in std::io::stdin().lock().lines() {
        let v: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(input) = v["input"].as_str() else { continue };
        if repairing || v["kind"] == "repair" {
            let r = repair(input).map(|r| r.target.as_str().to_owned());
            if v["peer_expects"] != serde_json::json!(r) { println!("R {} {:?} -> {:?} peer {}", &v["source"].as_str().unwrap()[..10], input, r, v["peer_expects"]); }
        } else if v["kind"] == "extract" {
            let found: Vec<_> = find_iter(input.as_bytes()).map(|f| f.name.to_string().to_lowercase()).collect();
            let p = &v["peer_expects"];
            let same = *p == serde_json::json!(found) || p.as_array().is_some_and(|a| a.iter().map(|s| s.as_str().unwrap().to_lowercase()).collect::<Vec<_>>() == found) || p.as_str().is_some_and(|p| found.first().is_some_and(|f| *f == p.to_lowercase()));
            if !same { println!("E {} {:?} -> {:?} peer {}", &v["source"].as_str().unwrap()[..10], input, found, p); }
        } else {
            let r = Reader::lenient().read(input);
            println!("P {} {} {:?} -> {} peer {}", v["kind"], &v["source"].as_str().unwrap()[..10], input, match &r { Ok(r) => format!("{} {}", r.target().as_str(), r.form().as_str()), Err(e) => format!("ERR {:?}@{}", e.kind(), e.at()) }, v["peer_expects"]);
        }
    }
}
