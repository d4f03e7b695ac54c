package contracts

// Notice is something that a person should read once.
type Notice struct {
	NoticeID  string       `json:"notice_id" maxLength:"100"`
	Title     string       `json:"title" maxLength:"200"`
	Message   string       `json:"message" maxLength:"4000"`
	Details   List[string] `json:"details" default:"[]"`
	CreatedAt Time         `json:"created_at"`
}

// NoticeList holds the notices that nobody has put away yet, oldest first.
type NoticeList struct {
	Items List[Notice] `json:"items" default:"[]"`
}
