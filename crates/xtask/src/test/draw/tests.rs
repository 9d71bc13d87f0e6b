use super::*;

fn day(number: u64) -> Day {
    Day::after(Duration::from_secs(number * DAY))
}

#[test]
fn consecutive_days_draw_every_engine_in_turn() {
    let drawn: Vec<Engine> = (20_000..20_010).map(|it| day(it).draw(&Engine::ALL)).collect();
    assert_eq!(drawn[..5], Engine::ALL);
    assert_eq!(drawn[5..], Engine::ALL);
}

#[test]
fn all_moments_of_one_day_draw_the_same_engine() {
    let first = Duration::from_secs(20_001 * DAY);
    let last = first + Duration::from_secs(DAY - 1);
    assert_eq!(Day::after(first), Day::after(last));
    assert_ne!(Day::after(last), Day::after(last + Duration::from_secs(1)));
}

#[test]
fn only_wanted_engines_are_drawn() {
    for number in 0..10 {
        assert_eq!(day(number).draw(&[Engine::Mysql]), Engine::Mysql);
        assert_ne!(day(number).draw(&[Engine::Sqlite, Engine::Redis]), Engine::Postgres);
    }
}

#[test]
fn the_last_engine_is_followed_by_the_first() {
    assert_eq!(next(Engine::Sqlite, &Engine::ALL), Engine::Postgres);
    assert_eq!(next(Engine::Etcd, &Engine::ALL), Engine::Sqlite);
    assert_eq!(next(Engine::Redis, &[Engine::Redis]), Engine::Redis);
}
