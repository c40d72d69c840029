(* As culprit.c, with what OCaml has. *)
let orders = Mutex.create ()
let prices = Mutex.create ()
let queue = Mutex.create ()
let arrived = Condition.create ()
let is_over = ref false
let rest time = if time > 0. then Thread.delay time

let[@inline never] take_orders time =
  Mutex.lock orders;
  rest time;
  Mutex.unlock orders

let[@inline never] take_prices time =
  Mutex.lock prices;
  rest time;
  Mutex.unlock prices

let wait_for_work () =
  Mutex.lock queue;
  while not !is_over do
    Condition.wait arrived queue
  done;
  Mutex.unlock queue

let clerk (orders_time, prices_time) =
  for _ = 1 to 12 do
    take_orders orders_time;
    take_prices prices_time
  done;
  is_over := true

(* Without its rest it could hold the master lock longer than the clerk holds a mutex. *)
let buyer () =
  while not !is_over do
    take_orders 0.;
    take_prices 0.;
    rest 0.001
  done

let () =
  let is_prices = Array.length Sys.argv > 1 && Sys.argv.(1) = "prices" in
  let times = if is_prices then (0.001, 0.025) else (0.025, 0.001) in
  let idle = List.init 4 (fun _ -> Thread.create wait_for_work ()) in
  let clerk = Thread.create clerk times in
  let buyers = List.init 3 (fun _ -> Thread.create buyer ()) in
  Thread.join clerk;
  List.iter Thread.join buyers;
  Mutex.lock queue;
  Condition.broadcast arrived;
  Mutex.unlock queue;
  List.iter Thread.join idle
