# Writes tables that come with packages of R as CSV files into the folder that is given.
# Needs: mlbench, kernlab, ggplot2, modeldata.
folder <- commandArgs(trailingOnly = TRUE)[1]
packages <- list(
  mlbench = c("LetterRecognition", "Satellite", "Shuttle", "DNA"),
  kernlab = c("spam", "income"),
  ggplot2 = "diamonds",
  modeldata = c("mlc_churn", "credit_data", "hpc_data", "wa_churn", "lending_club", "stackoverflow")
)
dir.create(folder, showWarnings = FALSE)
for (package in names(packages)) {
  for (name in packages[[package]]) {
    data(list = name, package = package)
    write.csv(get(name), file.path(folder, paste0(name, ".csv")), row.names = FALSE)
  }
}
