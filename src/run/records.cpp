#include "carillon/run/records.h"

namespace carillon {

bool is_synthetic(const std::vector<std::string>& patterns) {
  return patterns.size() == 1 && patterns.front() == "synthetic";
}

Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, RecordUse use,
                     const RecordOptions& options, const Mpi& mpi) {
  RecordSchema schema = form.schema;
  if (!options.image_key.empty()) schema.keys.image = options.image_key;
  if (!options.label_key.empty()) schema.keys.label = options.label_key;
  if (is_synthetic(patterns)) return Dataset::synthetic(schema.image_shape, schema.class_count);
  return Dataset::open(patterns, form.make_decoder(std::move(schema), use), options.cache, mpi.local_size());
}

}  // namespace carillon
