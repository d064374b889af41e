#include "carillon/app/app.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <optional>

namespace carillon {
namespace {

void print_error(std::string_view program, const Mpi* mpi, std::string_view message) {
  const std::string line = mpi ? fmt::format("{}: rank {} on {}: {}\n", program, mpi->rank(), mpi->host(), message)
                               : fmt::format("{}: {}\n", program, message);
  print_text(STDERR_FILENO, line);
}

/// Opens /dev/null on whichever of stdin, stdout and stderr are closed, lest MPI's pipes take their numbers.
void open_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
  }
}

}  // namespace

ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, const std::function<ExitCode()>& body) {
  if (mpi.size() == 1) return body();
  const auto end_all = [&](const char* message, ExitCode code) {
    print_error(program, &mpi, message);
    mpi.abort(code);
  };
  try {
    return body();
  } catch (const PeerFailed&) {
    throw;
  } catch (const SharedError&) {
    throw;
  } catch (const Error& error) {
    end_all(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    end_all("out of memory", ExitCode::failed);
  } catch (const std::exception& error) {
    end_all(error.what(), ExitCode::failed);
  }
  return ExitCode::failed;  // not reached: end_all does not return
}

int run_app(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed stdout must not end a training
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write, not a death
  open_standard_descriptors();
  std::optional<Mpi> mpi;
  ExitCode code = ExitCode::failed;
  try {
    mpi.emplace(&argc, &argv);
    agree(*mpi, {{"the program", program}});  // others would wait in other collective calls
    code = abort_on_own_error(*mpi, program, [&] { return body(*mpi); });
  } catch (const PeerFailed& peer) {
    code = peer.code();
  } catch (const Error& error) {
    print_error(program, mpi ? &*mpi : nullptr, error.what());
    code = error.code();
  } catch (const std::bad_alloc&) {
    print_error(program, mpi ? &*mpi : nullptr, "out of memory");
  } catch (const std::exception& error) {
    print_error(program, mpi ? &*mpi : nullptr, error.what());
  }
  std::fflush(stdout);
  return static_cast<int>(code);
}

bool parse_options(OptionSet& set, int argc, char** argv, const Mpi& mpi, const std::vector<std::string>& own) {
  bool go_on = false;
  mpi.run_on_all([&] { go_on = set.parse(argc, argv); });
  agree(mpi, {{"help", !go_on}});  // first: the other options of a rank that only helps are not set
  nlohmann::json values = set.values();
  for (const std::string& key : own) values.erase(key);
  agree(mpi, values);
  if (!go_on && mpi.rank() == 0) print_text(STDOUT_FILENO, set.help());
  return go_on;
}

void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message) {
  if (mpi.rank() == 0) throw SharedError(code, message);
  throw PeerFailed(code);
}

std::string shown_key(std::string key) {
  if (key.find(' ') != std::string::npos) return key;
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

void agree(const Mpi& mpi, const nlohmann::json& values) {
  const std::vector<std::string> all = mpi.all_gather(values.dump());
  for (int rank = 1; rank < mpi.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const nlohmann::json first = nlohmann::json::parse(all[0]), other = nlohmann::json::parse(all[rank]);
    for (const auto& [key, value] : first.items()) {
      if (other.contains(key) && other[key] == value) continue;
      fail_on_all(mpi, ExitCode::usage,
                  fmt::format("ranks disagree on {}: {} on rank 0, {} on rank {}", shown_key(key), value.dump(),
                              other.contains(key) ? other[key].dump() : "nothing", rank));
    }
    fail_on_all(mpi, ExitCode::usage, fmt::format("ranks 0 and {} run different programs", rank));
  }
}

}  // namespace carillon
