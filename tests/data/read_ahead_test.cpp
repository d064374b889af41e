// Tests how many bytes the threads that decode ahead read from files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "src/data/loading/batch_loader.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

/// Returns the number of bytes that this process has read by read(2) and similar calls.
double bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  double count = 0;
  file >> name >> count;
  EXPECT_EQ(name, "rchar:");
  return count;
}
/// Returns the number of bytes that `work` reads. Does not count the bytes that bytes_read itself reads.
double bytes_read_by(const std::function<void()>& work) {
  const double before = bytes_read(), between = bytes_read();
  work();
  return bytes_read() - between - (between - before);
}

class ReadingAheadTest : public ScratchTest {
 protected:
  Dataset open() const {
    const std::vector<std::string> paths = {write("a", mnist_records(50)), write("b", mnist_records(50))};
    return Dataset::open(paths, mnist_decoder, CacheMode::none);
  }
  static constexpr double some_digits = 8;  // number of bytes by which the text of /proc/self/io may grow meanwhile
};

TEST_F(ReadingAheadTest, ReadsTheRecordsThatAreNamedAndNoOthers) {
  const Dataset set = open();
  const auto record = static_cast<double>(std::filesystem::file_size(path("a"))) / 50;
  const auto read_of = [&](const std::vector<std::uint32_t>& records) {
    return bytes_read_by([&] { set.fetch(records, {}); });
  };
  EXPECT_NEAR(read_of({}), 0, some_digits);
  EXPECT_NEAR(read_of({7}), record, some_digits);
  EXPECT_NEAR(read_of({3, 4, 5, 9, 99}), 5 * record, some_digits);
  EXPECT_NEAR(read_of({48, 49, 50, 51}), 4 * record, some_digits);  // these records are in both files
}

TEST_F(ReadingAheadTest, EndsAtItsLimitOrIfFilesAreGone) {
  const Dataset set = open();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_NEAR(bytes_read_by([&] { set.fetch(std::vector<std::uint32_t>{1}, stop.get_token()); }), 0, some_digits);
  std::filesystem::remove(path("a"));
  EXPECT_NEAR(bytes_read_by([&] { set.fetch(std::vector<std::uint32_t>{1}, {}); }), 0, some_digits);
}

/// In each epoch of 100 records, each of two processes reads one half, and at most one more window.
TEST_F(ReadingAheadTest, EachRecordIsReadOnceAnEpochByOneProcessOfTheHost) {
  const Dataset set = open();
  const auto record = static_cast<double>(std::filesystem::file_size(path("a"))) / 50;
  for (const std::size_t processes : {1u, 2u}) {
    for (std::size_t process = 0; process < processes; ++process) {
      const double read = bytes_read_by([&] {
        BatchLoader loader(set, SampleOrder(100, {.seed = 3, .window = 20}),
                           {.start = 0, .global_batch = 10, .batch_size = 10, .end = 100},
                           {.thread_count = 2, .part = {process, processes}});
        while (loader.has_next()) loader.next();
      });
      const double parts = static_cast<double>(processes);
      EXPECT_GE(read + some_digits, 100 * record / parts);
      EXPECT_LE(read - some_digits, 120 * record / parts);
    }
  }
}

}  // namespace
}  // namespace carillon
