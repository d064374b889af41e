#include "src/cli/launch/ranks.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace carillon {
namespace {

using testing::ElementsAre;

/// Returns a command that begins with mpirun. If the user is root, the command must have the option that allows Open
/// MPI to run as root; for other users, it must not have this option.
std::vector<std::string> of_mpirun(const std::string& ranks, const std::vector<std::string>& more) {
  std::vector<std::string> words{"mpirun", "-np", ranks};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Launch, BindsRanksToTheirShareOfTheCores) {
  EXPECT_EQ((Launch{.ranks = 2, .cores = 5}.command("/own/train", {"--seed", "3"})),
            of_mpirun("2", {"--map-by", "slot:PE=2", "--bind-to", "core", "/own/train", "--seed", "3"}));
  EXPECT_EQ((Launch{.ranks = 3, .cores = 2}.command("/own/train", {})),
            of_mpirun("3", {"--oversubscribe", "--bind-to", "none", "/own/train"}));
  EXPECT_THAT((Launch{.ranks = 1, .cores = 2}.command("/own/train", {})), ElementsAre("/own/train"));
}

/// While the object exists, the running program has another name.
class CalledAs {
 public:
  explicit CalledAs(std::string name) : name_(std::move(name)) { program_invocation_name = name_.data(); }
  ~CalledAs() { program_invocation_name = before_; }
  CalledAs(const CalledAs&) = delete;
  CalledAs& operator=(const CalledAs&) = delete;

 private:
  std::string name_;
  char* before_ = program_invocation_name;
};

TEST(ProgramAsCalled, NamesAProgramAsTheUserNamedTheRunningOne) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
  const std::string program = own.filename();
  const auto called_as = [&](const std::string& name) {
    const CalledAs called(name);
    return program_as_called(program);
  };
  const std::string relative = "./" + std::filesystem::relative(own).string();
  EXPECT_EQ(called_as(relative), relative);
  EXPECT_EQ(called_as(own.string()), own.string());
  EXPECT_EQ(called_as("carillon"), own.string()) << "PATH does not contain the folder";
  const std::string path = std::getenv("PATH");
  setenv("PATH", (path + ":" + own.parent_path().string()).c_str(), 1);
  EXPECT_EQ(called_as("carillon"), program);
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(called_as("/usr/bin/carillon"), own.string()) << "a link in another folder";
}

TEST(ProgramAsCalled, KeepsAnAbsolutePath) { EXPECT_EQ(program_as_called("/own/train"), "/own/train"); }

}  // namespace
}  // namespace carillon
