// Streams, events, captures and graphs: the order in which work runs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace versieve::mock_cuda {

class Work {
 public:
  virtual ~Work() = default;
  // All that it waits for has run.
  virtual void run() = 0;
  // Whether it uses memory there.
  virtual bool uses(const char* /*begin*/, const char* /*end*/) const { return false; }
};

// What a capture made. `after`: the nodes that come before.
struct Graph {
  struct Node {
    std::shared_ptr<Work> work;
    std::set<std::size_t> after;
  };
  std::vector<Node> nodes;
};

class Stream;
struct Capture {
  Stream* origin = nullptr;
  bool relaxed = false;  // calls that are unsafe under a capture may be made
  bool broken = false;   // a call was refused
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  // Of the origin and the streams that follow it: the nodes that their next one comes after.
  std::map<Stream*, std::set<std::size_t>> newest;
};

// A stream runs its work in order, as late as can be: when somebody waits for it.
class Stream {
 public:
  explicit Stream(bool blocking) : is_blocking(blocking) {}

  void enqueue(std::shared_ptr<Work> work);
  void run_until(std::uint64_t position);
  void run_all() { run_until(enqueued_); }
  std::uint64_t enqueued() const { return enqueued_; }
  bool pending_uses(const char* begin, const char* end) const;

  const bool is_blocking;  // the legacy stream and this one wait for each other
  std::shared_ptr<Capture> capture;

 private:
  std::deque<std::shared_ptr<Work>> queue_;
  std::uint64_t enqueued_ = 0, done_ = 0;
};

struct Event {
  std::shared_ptr<Stream> stream;  // null: not recorded, or in a capture
  std::uint64_t position = 0;
  std::weak_ptr<Capture> capture;  // that it was recorded in
  std::set<std::size_t> nodes;     // that it stands behind there
  bool captured = false;
};

// The stream's later work comes after the event. Empty, or why the runtime refuses.
std::string wait_for(const std::shared_ptr<Stream>& stream, const Event& event);
void record(const std::shared_ptr<Stream>& stream, Event& event);
// Whether some stream of the capture was not joined by its origin.
bool leaves_work_unjoined(const Capture& capture);

}  // namespace versieve::mock_cuda
