#include "carillon/run/records.h"

namespace carillon {

Dataset open_records(const std::vector<std::string>& patterns, const Model& model, const RecordOptions& options,
                     const Mpi& mpi) {
  RecordSchema schema = model.schema;
  if (!options.image_key.empty()) schema.image_key = options.image_key;
  if (!options.label_key.empty()) schema.label_key = options.label_key;
  return Dataset::open(patterns, schema, options.cache, mpi.local_size());
}

}  // namespace carillon
