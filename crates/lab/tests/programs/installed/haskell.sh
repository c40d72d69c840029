# Compiles and runs threads of the host with MVars and a channel.
folder=$(mktemp -d) && cd "$folder" || exit 1
cat >sum.hs <<'SOURCE'
import Control.Concurrent
import Control.Monad

main :: IO ()
main = do
  queue <- newChan
  done <- newEmptyMVar
  sums <- newMVar (0 :: Int)
  forM_ [1 .. 4 :: Int] $ \_ -> forkOS $ do
    replicateM_ 250 $ do
      n <- readChan queue
      modifyMVar_ sums (return . (+ n))
      yield
    putMVar done ()
  forM_ [1 .. 1000] (writeChan queue)
  replicateM_ 4 (takeMVar done)
  readMVar sums >>= print
SOURCE
ghc -v0 -threaded sum.hs -o program && ./program +RTS -N2
status=$?
cd / && rm -r "$folder"
exit $status
