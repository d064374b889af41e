#include "src/comm/stall/heartbeat_table.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "src/comm/mpi/members.h"
#include "src/core/process.h"

namespace carillon {
namespace {

constexpr std::array<std::string_view, 6> phase_names{"start", "data", "compute", "evaluation", "checkpoint", "finish"};

/// Order of the phases within one step number. Checkpoints and evaluations have the number of the step that follows
/// them.
int place_in_time(Phase phase) {
  constexpr std::array order{Phase::start, Phase::checkpoint, Phase::evaluation,
                             Phase::data,  Phase::compute,    Phase::finish};
  return static_cast<int>(std::ranges::find(order, phase) - order.begin());
}

/// Returns the PID namespace of this process.
std::uint64_t own_process_space() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::string_view name_of(Phase phase) { return phase_names.at(static_cast<std::size_t>(phase)); }

bool is_step_phase(int phase) {
  return phase == static_cast<int>(Phase::data) || phase == static_cast<int>(Phase::compute);
}

double table_time() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Stillness::seconds(std::uint64_t sign, double time) {
  seconds_ = sign == sign_ ? seconds_ + std::min(time - looked_, max_gap_) : 0.0;
  sign_ = sign;
  looked_ = time;
  return seconds_;
}

HeartbeatTable::HeartbeatTable(const Members& host) : host_(host), arrays_(host, sizeof(Entry)) {
  new (arrays_.own()) Entry;
  own().since = table_time();
  own().process = getpid();
  own().process_space = own_process_space();
  meet(host, "setting up the stall detector");
}

std::optional<int> HeartbeatTable::member(int rank) const {
  const std::vector<int>& ranks = host_.bounded_wait().ranks();
  const auto found = std::ranges::find(ranks, rank);
  return found == ranks.end() ? std::nullopt : std::optional(static_cast<int>(found - ranks.begin()));
}

int HeartbeatTable::process(int member) const {
  return entry(member).process_space == own().process_space ? entry(member).process.load() : 0;
}

bool HeartbeatTable::has_failed_member() const {
  if (run_ends()) return true;
  for (int member = 0; member < size(); ++member) {
    const int id = process(member);
    if (entry(member).failed_with != 0 || (id > 0 && kill(id, 0) != 0 && errno == ESRCH)) return true;
  }
  return false;
}

bool HeartbeatTable::is_first_to_end() const {
  int none = -1;
  return entry(0).ended_by.compare_exchange_strong(none, own_member());
}

bool HeartbeatTable::has_ended(int member) const {
  const int id = process(member);
  return id > 0 && process_has_ended(id);
}

std::optional<int> HeartbeatTable::ended_member() const {
  for (int member = 0; member < size(); ++member) {
    if (has_ended(member)) return member;
  }
  return std::nullopt;
}

std::optional<int> HeartbeatTable::failed_member() const {
  for (int member = 0; member < size(); ++member) {
    if (entry(member).failed_with != 0) return member;
  }
  return std::nullopt;
}

bool HeartbeatTable::is_lowest() const {
  for (int member = 0; member < own_member(); ++member) {
    if (!has_ended(member)) return false;
  }
  return true;
}

std::string HeartbeatTable::place_text(int member) const {
  const Entry& of = entry(member);
  return fmt::format("{} of step {}", name_of(static_cast<Phase>(of.phase.load())), of.step.load());
}

std::string HeartbeatTable::activity_text(int member) const {
  const Entry& of = entry(member);
  const int waits_for = of.waits_for;
  return fmt::format("in {} for {:.0f} s{}", place_text(member), table_time() - of.since,
                     waits_for < 0 ? "" : fmt::format(", waiting for rank {}", waits_for));
}

std::string HeartbeatTable::stall_text(int member) const {
  return fmt::format("rank {} hangs{}: it has been {}", rank(member),
                     is_stopped(process(member)) ? ", stopped by a signal" : "", activity_text(member));
}

std::optional<int> HeartbeatTable::slowest_member() const {
  const auto progress = [&](int member) {
    return std::pair(entry(member).step.load(), place_in_time(static_cast<Phase>(entry(member).phase.load())));
  };
  std::optional<int> found;
  for (int member = 0; member < size(); ++member) {
    if (member == own_member()) continue;
    if (is_stopped(process(member))) return member;
    if (progress(member) < progress(found.value_or(own_member()))) found = member;
  }
  return found;
}

}  // namespace carillon
