// Reads TensorBoard's event files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "carillon/data/record.h"
#include "report/event.pb.h"

namespace carillon::testing {

/// Returns the paths of all files in `directory`, in alphabetical order. TensorBoard reads event files in this order.
/// The names of event files come before the names of a run's other files.
inline std::vector<std::string> event_files(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().string());
  std::ranges::sort(names);
  return names;
}

inline std::vector<event::Event> read_events(const std::string& path) {
  std::vector<event::Event> events;
  RecordReader reader(path);
  for (Record record; reader.next(record);) {
    events.emplace_back();
    EXPECT_TRUE(events.back().ParseFromArray(record.data.data(), static_cast<int>(record.data.size())));
  }
  return events;
}

}  // namespace carillon::testing
