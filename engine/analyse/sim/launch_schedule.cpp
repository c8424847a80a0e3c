#include "engine/analyse/sim/launch_schedule.h"

#include <algorithm>
#include <map>
#include <queue>
#include <vector>

#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// Where a launch's CTAs lie is not the same from run to run: those that ran before it leave other
// SMs first. GPCs from launch to launch, so that a line is read from both sides in turn.
constexpr std::int64_t kTurn = 3;

// A resident CTA: an SM's place with what runs in it.
struct Place {
  std::int64_t sm = 0;
  std::int64_t gpc = 0;
  std::int64_t cluster = 0;  // index of the cluster place
  std::int64_t cta = -1;
  std::int64_t step = 0;
};

struct Event {
  double cycle = 0.0;
  std::size_t place = 0;
  // The earliest first; places in order within a cycle.
  bool operator<(const Event& other) const {
    return cycle != other.cycle ? cycle > other.cycle : place > other.place;
  }
};

// In [0, 1), the same each time.
double share_of(std::int64_t cta, std::int64_t step) {
  const std::uint64_t hash =
      line_hash(static_cast<std::uint64_t>(cta) << 20 ^ static_cast<std::uint64_t>(step) ^ 1);
  return static_cast<double>(hash >> 40) / static_cast<double>(1 << 24);
}

class Schedule {
 public:
  Schedule(const LaunchTrace& launch, const MemoryMachine& machine, MemorySystem& memory)
      : launch_(launch), shape_(launch.shape()), machine_(machine), memory_(memory) {}

  ScheduledLaunch run(double begin);

 private:
  void make_places();
  std::int64_t gpc_of(std::int64_t cluster) const {
    const std::int64_t pair =
        shape_.cluster == 1 ? cluster % machine_.sm_count / machine_.placed_together : cluster;
    return (pair + turn_) % machine_.gpc_count;
  }
  // Of a cluster, for as long as it stays: above and below 1.
  double pace_of(const Place& place) const {
    constexpr std::int64_t kOfAllSteps = -1;
    return 1.0 + shape_.pace_spread * (share_of(place.cta / shape_.cluster, kOfAllSteps) - 0.5);
  }
  void start_cluster(std::int64_t cluster_place, double cycle);
  void run_step(const Event& event);
  void enqueue(std::size_t place, double cycle);
  void end_cta(const Place& place, double cycle);
  void arrive(std::int64_t counter, double cycle);
  // What the CTA's threads spill lies in memory that belongs to its place, launch after launch.
  void append_spills(std::size_t place, AccessKind kind);

  const LaunchTrace& launch_;
  const LaunchShape& shape_;
  const MemoryMachine& machine_;
  MemorySystem& memory_;
  std::vector<Place> places_;
  std::vector<std::int64_t> running_;  // CTAs of each cluster place
  struct Meeting {
    std::int64_t count = 0;
    double cycle = 0.0;
  };
  std::vector<Meeting> meetings_;  // of each cluster place
  struct Waiter {
    std::size_t place = 0;
    Waiting wanted;
    double since = 0.0;
  };
  struct Counter {
    std::vector<double> arrivals;  // cycles
    std::vector<Waiter> waiters;
  };
  std::map<std::int64_t, Counter> counters_;
  std::vector<double> sm_free_;  // when an SM can issue another step
  std::priority_queue<Event> events_;
  std::vector<Access> accesses_;
  std::int64_t turn_ = 0;  // GPCs by which this launch's first CTA lies beyond the first one's
  std::int64_t next_cta_ = 0;
  double end_ = 0.0;
};

// Consecutive CTAs go to neighbouring SMs, pair after pair to the GPCs in turn, and GPCs belong to
// the partitions in turn; clusters go to GPCs in turn.
void Schedule::make_places() {
  const std::int64_t ctas_per_sm =
      resident_ctas(machine_, shape_.threads, shape_.registers, shape_.shared_bytes);
  if (ctas_per_sm < 1) {
    throw Error(ExitCode::kAnswerNo,
                shape_.path + ": no SM of this machine can hold one of its thread blocks");
  }
  const std::int64_t fit = resident_clusters(machine_, shape_.cluster, ctas_per_sm);
  if (fit < 1) {
    throw Error(ExitCode::kAnswerNo,
                shape_.path + ": no part of this machine can hold one of its clusters");
  }
  const std::int64_t clusters = std::min(fit, shape_.ctas / shape_.cluster);
  running_.assign(static_cast<std::size_t>(clusters), 0);
  meetings_.assign(static_cast<std::size_t>(clusters), {});
  for (std::int64_t c = 0; c < clusters; ++c) {
    for (std::int64_t rank = 0; rank < shape_.cluster; ++rank) {
      const std::int64_t place = shape_.cluster == 1 ? c : rank / ctas_per_sm + c * shape_.cluster;
      places_.push_back({.sm = place % machine_.sm_count, .gpc = gpc_of(c), .cluster = c});
    }
  }
}

void Schedule::start_cluster(std::int64_t cluster_place, double cycle) {
  for (std::int64_t rank = 0; rank < shape_.cluster; ++rank) {
    const std::size_t at = static_cast<std::size_t>(cluster_place * shape_.cluster + rank);
    places_[at].cta = next_cta_++;
    places_[at].step = 0;
    events_.push({cycle, at});
  }
  running_[static_cast<std::size_t>(cluster_place)] = shape_.cluster;
}

void Schedule::append_spills(std::size_t place, AccessKind kind) {
  constexpr std::uint64_t kLocalMemory = 1ULL << 46;  // where no trace has its buffers
  const std::uint64_t bytes = static_cast<std::uint64_t>(shape_.threads * shape_.local_bytes);
  if (bytes > 0) {
    accesses_.push_back({.address = kLocalMemory + place * bytes,
                         .bytes = static_cast<std::uint32_t>(bytes),
                         .kind = kind});
  }
}

void Schedule::run_step(const Event& event) {
  Place& place = places_[event.place];
  accesses_.clear();
  if (!launch_.append_step(place.cta, place.step, accesses_)) {
    append_spills(event.place, AccessKind::kRead);
    for (const Access& access : accesses_) {
      memory_.access(access, place.gpc, event.cycle);
    }
    end_cta(place, event.cycle);
    return;
  }
  if (place.step == 0) {
    append_spills(event.place, AccessKind::kWrite);
  }
  double& sm_free = sm_free_[static_cast<std::size_t>(place.sm)];
  const double begin = std::max(event.cycle, sm_free);
  double done = begin;
  double bytes = 0.0;
  for (const Access& access : accesses_) {
    done = std::max(done, memory_.access(access, place.gpc, begin));
    bytes += static_cast<double>(access.bytes) * access.count;
  }
  const double moving = bytes / machine_.sm_bytes_per_cycle;
  const double waiting = (done - begin) / shape_.steps_in_flight;
  const double drift =
      (1.0 + machine_.step_jitter * share_of(place.cta, place.step)) * pace_of(place);
  const double share = launch_.step_share(place.cta, place.step);
  sm_free = begin + std::max(moving, share * shape_.issue_cycles * drift);
  place.step += 1;
  enqueue(event.place,
          begin + std::max({waiting, moving, share * shape_.step_cycles, 1.0}) * drift);
}

void Schedule::end_cta(const Place& place, double cycle) {
  end_ = std::max(end_, cycle);
  if (const std::int64_t counter = launch_.arrives_at(place.cta); counter >= 0) {
    arrive(counter, cycle);
  }
  std::int64_t& running = running_[static_cast<std::size_t>(place.cluster)];
  if (--running == 0 && next_cta_ < shape_.ctas) {
    start_cluster(place.cluster, cycle);
  }
}

void Schedule::arrive(std::int64_t counter, double cycle) {
  Counter& at = counters_[counter];
  at.arrivals.push_back(cycle);
  std::erase_if(at.waiters, [&](const Waiter& waiter) {
    const Waiting& wanted = waiter.wanted;
    if (wanted.arrivals > static_cast<std::int64_t>(at.arrivals.size())) {
      return false;
    }
    const double late = std::max(
        waiter.since,
        wanted.nearly_all > 0 ? at.arrivals[static_cast<std::size_t>(wanted.nearly_all - 1)] : 0.0);
    memory_.count_polls(
        ((late - waiter.since) * wanted.requests + (cycle - late) * wanted.late_requests) /
        machine_.poll_cycles);
    events_.push({cycle, waiter.place});
    return true;
  });
}

// The CTA's next step, once what it waits for is there, or, where its cluster meets, everybody's
// once the last one has come.
void Schedule::enqueue(std::size_t place, double cycle) {
  const Place& at = places_[place];
  if (const Waiting wanted = launch_.waits_for(at.cta, at.step); wanted.counter >= 0) {
    Counter& counter = counters_[wanted.counter];
    memory_.count_polls(wanted.requests);
    if (static_cast<std::int64_t>(counter.arrivals.size()) < wanted.arrivals) {
      counter.waiters.push_back({place, wanted, cycle});
      return;
    }
  }
  if (!launch_.meets_cluster(at.cta, at.step)) {
    events_.push({cycle, place});
    return;
  }
  Meeting& meeting = meetings_[static_cast<std::size_t>(at.cluster)];
  meeting.cycle = std::max(meeting.cycle, cycle);
  if (++meeting.count < shape_.cluster) {
    return;
  }
  for (std::int64_t rank = 0; rank < shape_.cluster; ++rank) {
    events_.push({meeting.cycle, static_cast<std::size_t>(at.cluster * shape_.cluster + rank)});
  }
  meeting = {};
}

ScheduledLaunch Schedule::run(double begin) {
  VERSIEVE_ASSERT(shape_.ctas > 0 && shape_.cluster > 0 && shape_.ctas % shape_.cluster == 0,
                  "a launch has whole clusters");
  turn_ = memory_.begin_launch() * kTurn % machine_.gpc_count;
  make_places();
  sm_free_.assign(static_cast<std::size_t>(machine_.sm_count), begin);
  end_ = begin;
  for (std::int64_t c = 0; c < static_cast<std::int64_t>(running_.size()); ++c) {
    start_cluster(c, begin + machine_.cta_start_cycles * static_cast<double>(c * shape_.cluster));
  }
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    run_step(event);
  }
  const std::int64_t resident = static_cast<std::int64_t>(places_.size());
  VERSIEVE_ASSERT(std::all_of(counters_.begin(), counters_.end(),
                              [](const auto& counter) { return counter.second.waiters.empty(); }),
                  "whoever waits is waited for by nobody that waits for it");
  if (!shape_.goes_on) {
    memory_.count_launch();
  }
  return {resident, static_cast<double>(shape_.ctas) / static_cast<double>(resident), end_};
}

}  // namespace

std::int64_t resident_clusters(const MemoryMachine& machine, std::int64_t cluster,
                               std::int64_t ctas_per_sm) {
  if (cluster == 1) {
    return machine.sm_count * ctas_per_sm;
  }
  // GPCs of a partly disabled chip differ in size by two SMs; the smallest is two below the others'
  // mean (132 SMs: 15 clusters of 8 at one CTA an SM, measured).
  std::int64_t places = 0;
  std::int64_t left = machine.sm_count;
  for (std::int64_t gpc = machine.gpc_count; gpc > 0; --gpc) {
    const std::int64_t even = left / gpc / 2 * 2;
    const std::int64_t sms =
        gpc == machine.gpc_count && gpc > 1 ? std::max<std::int64_t>(even - 2, 1) : even;
    places += sms * ctas_per_sm / cluster;
    left -= sms;
  }
  return places;
}

ScheduledLaunch run_launch(const LaunchTrace& launch, const MemoryMachine& machine,
                           MemorySystem& memory, double begin) {
  return Schedule(launch, machine, memory).run(begin);
}

}  // namespace versieve::engine
