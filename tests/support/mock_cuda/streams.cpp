#include "tests/support/mock_cuda/streams.h"

#include <algorithm>

namespace versieve::mock_cuda {
namespace {

class WaitForEvent final : public Work {
 public:
  explicit WaitForEvent(const Event& event) : stream_(event.stream), position_(event.position) {}
  void run() override { stream_->run_until(position_); }

 private:
  std::shared_ptr<Stream> stream_;
  std::uint64_t position_;
};

}  // namespace

void Stream::enqueue(std::shared_ptr<Work> work) {
  if (capture != nullptr) {
    std::set<std::size_t>& newest = capture->newest[this];
    capture->graph->nodes.push_back({std::move(work), newest});
    newest = {capture->graph->nodes.size() - 1};
    return;
  }
  queue_.push_back(std::move(work));
  ++enqueued_;
}

void Stream::run_until(std::uint64_t position) {
  while (done_ < position && !queue_.empty()) {
    const std::shared_ptr<Work> work = std::move(queue_.front());
    queue_.pop_front();
    ++done_;
    work->run();
  }
}

bool Stream::pending_uses(const char* begin, const char* end) const {
  return std::any_of(queue_.begin(), queue_.end(),
                     [&](const std::shared_ptr<Work>& work) { return work->uses(begin, end); });
}

std::string wait_for(const std::shared_ptr<Stream>& stream, const Event& event) {
  const std::shared_ptr<Capture> captured = event.capture.lock();
  if (event.captured) {
    if (captured == nullptr) {
      return "waits for an event of a capture that has ended";
    }
    if (stream->capture != nullptr && stream->capture != captured) {
      return "waits for an event of another capture";
    }
    stream->capture = captured;  // from now on it follows the origin
    captured->newest[stream.get()].insert(event.nodes.begin(), event.nodes.end());
    return {};
  }
  if (stream->capture != nullptr) {
    return "waits in a capture for an event that was recorded outside of it";
  }
  if (event.stream != nullptr) {
    stream->enqueue(std::make_shared<WaitForEvent>(event));
  }
  return {};
}

void record(const std::shared_ptr<Stream>& stream, Event& event) {
  event = {};
  if (stream->capture != nullptr) {
    event.captured = true;
    event.capture = stream->capture;
    event.nodes = stream->capture->newest[stream.get()];
  } else {
    event.stream = stream;
    event.position = stream->enqueued();
  }
}

bool leaves_work_unjoined(const Capture& capture) {
  const auto end = capture.newest.find(capture.origin);
  std::set<std::size_t> joined =
      end != capture.newest.end() ? end->second : std::set<std::size_t>();
  // A node comes after nodes of lower numbers alone.
  for (std::size_t i = capture.graph->nodes.size(); i-- > 0;) {
    if (joined.count(i) == 0) {
      return true;
    }
    const std::set<std::size_t>& after = capture.graph->nodes[i].after;
    joined.insert(after.begin(), after.end());
  }
  return false;
}

}  // namespace versieve::mock_cuda
