# A pipeline of three threads.
for element in videotestsrc videoconvert; do
  gst-inspect-1.0 --exists $element || { echo "no $element here (Debian's package gstreamer1.0-plugins-base)" >&2; exit 77; }
done
gst-launch-1.0 -q videotestsrc num-buffers=200 ! queue ! videoconvert ! queue ! fakesink
echo "status $?"
