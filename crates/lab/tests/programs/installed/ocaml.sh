# Compiles and runs threads with a mutex and a condition variable.
folder=$(mktemp -d) && cd "$folder" || exit 1
cat >sum.ml <<'SOURCE'
let mutex = Mutex.create () and changed = Condition.create () and sum = ref 0

let worker () =
  for n = 1 to 1000 do
    Mutex.lock mutex;
    sum := !sum + n;
    Condition.broadcast changed;
    Mutex.unlock mutex;
    if n mod 100 = 0 then Thread.yield ()
  done

let () =
  let workers = List.init 4 (fun _ -> Thread.create worker ()) in
  Mutex.lock mutex;
  while !sum < 4 * 500500 do Condition.wait changed mutex done;
  Mutex.unlock mutex;
  List.iter Thread.join workers;
  Printf.printf "%d\n" !sum
SOURCE
ocamlopt -I +threads unix.cmxa threads.cmxa sum.ml -o program && ./program
status=$?
cd / && rm -r "$folder"
exit $status
