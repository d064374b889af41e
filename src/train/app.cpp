#include "carillon/train/app.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>

namespace carillon {
namespace {

void print_error(const std::string& program, const Mpi* mpi, const char* message) {
  const std::string line = mpi ? fmt::format("{}: rank {} on {}: {}\n", program, mpi->rank(), mpi->host(), message)
                               : fmt::format("{}: {}\n", program, message);
  // One write, so that lines of several ranks do not mix.
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace

int run_app(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed stdout must not end a training
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write, not a death
  std::optional<Mpi> mpi;
  ExitCode code = ExitCode::failed;
  try {
    mpi.emplace(&argc, &argv);
    code = body(*mpi);
  } catch (const PeerFailed& peer) {
    code = peer.code();
  } catch (const SharedError& error) {
    print_error(program, &*mpi, error.what());
    code = error.code();
  } catch (const Error& error) {
    print_error(program, mpi ? &*mpi : nullptr, error.what());
    code = error.code();
    if (mpi && mpi->size() > 1) mpi->abort(code);
  } catch (const std::exception& error) {
    print_error(program, mpi ? &*mpi : nullptr, error.what());
    if (mpi && mpi->size() > 1) mpi->abort(code);
  }
  std::fflush(stdout);
  return static_cast<int>(code);
}

bool parse_options(OptionSet& set, int argc, char** argv, const Mpi& mpi) {
  bool go_on = false;
  mpi.together([&] { go_on = set.parse(argc, argv); });
  if (!go_on && mpi.rank() == 0) fmt::print("{}", set.help());
  return go_on;
}

void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message) {
  if (mpi.rank() == 0) throw SharedError(code, message);
  throw PeerFailed(code);
}

namespace {

/// "learning_rate" as the option "--learning-rate"; what is no option has a space and stays.
std::string shown(std::string key) {
  if (key.find(' ') != std::string::npos) return key;
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

}  // namespace

void agree(const Mpi& mpi, const nlohmann::json& values, const std::vector<std::string>& own) {
  nlohmann::json shared = values;
  for (const std::string& key : own) shared.erase(key);
  const std::vector<std::string> all = mpi.all_gather(shared.dump());
  for (int rank = 1; rank < mpi.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const nlohmann::json first = nlohmann::json::parse(all[0]), other = nlohmann::json::parse(all[rank]);
    for (const auto& [key, value] : first.items()) {
      if (other.contains(key) && other[key] == value) continue;
      fail_on_all(mpi, ExitCode::usage,
                  fmt::format("ranks disagree on {}: {} on rank 0, {} on rank {}", shown(key), value.dump(),
                              other.contains(key) ? other[key].dump() : "nothing", rank));
    }
    fail_on_all(mpi, ExitCode::usage, fmt::format("ranks 0 and {} run different programs", rank));
  }
}

}  // namespace carillon
