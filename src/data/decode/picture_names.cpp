#include "src/data/decode/picture_names.h"

#include "carillon/core/error.h"
#include "carillon/data/record.h"
#include "src/data/records/example_generated.h"

namespace carillon {
namespace {

std::string name_in(const std::string& file, const Record& record) {
  check_record_data(file, record);
  proto::Example example;
  try {
    parse_generated(record.data, example);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", describe_record(file, record), error.what());
  }
  const auto& features = example.features().feature();
  const auto found = features.find(picture_name_feature);
  if (found == features.end() || found->second.bytes_list().value_size() != 1) return {};
  return found->second.bytes_list().value(0);
}

}  // namespace

std::vector<std::string> picture_names(std::span<const std::string> files, std::span<const std::size_t> records,
                                       const std::function<void()>& heartbeat) {
  std::vector<std::string> names;
  std::size_t number = 0;  // of the next record, over all files
  for (const std::string& file : files) {
    RecordReader reader(file, RecordCheck::framing);
    while (names.size() < records.size()) {
      heartbeat();
      RecordPlace place;
      Record record;
      const bool is_wanted = number == records[names.size()];
      if (!(is_wanted ? reader.next(record) : reader.next_place(place))) break;
      if (is_wanted) names.push_back(name_in(file, record));
      number += 1;
    }
  }
  names.resize(records.size());
  return names;
}

}  // namespace carillon
